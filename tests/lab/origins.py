"""Web servers on every address of the private network, plain and TLS on each port, with a certificate for any name."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from functools import cache
from ipaddress import ip_address
from pathlib import Path

import trustme
from cryptography import x509  # trustme stands on it; its own names go through IDNA, which refuses underscores
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PORTS = (80, 443, 22, 25, 8080, 8443, 11211, 12456)
_TLS_HANDSHAKE = b"\x16"
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
_TEN_MINUTES = datetime.timedelta(minutes=10)


class Origins:
    """Answers each request with the next of the redirects that are scripted, then with 200 and the body `ok`."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self._folder = folder
        self._locations: list[str] = []
        for family, everywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            for port in PORTS:
                listener = socket.socket(family)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((everywhere, port))
                listener.listen()
                threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    @property
    def anchors(self) -> str:
        """The authority's certificate in PEM."""
        return self._authority.cert_pem.bytes().decode("ascii")

    def script(self, *locations: str) -> None:
        """Redirect the next requests to these."""
        self._locations = list(locations)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        accepted.settimeout(5)
        try:
            with self._secured(accepted) as end:
                request = b""
                while b"\r\n\r\n" not in request and (piece := end.recv(65536)):
                    request += piece
                if request:
                    end.sendall(self._answer())
        except OSError:  # the client hung up, which is its right
            accepted.close()

    def _answer(self) -> bytes:
        if not self._locations:
            return _OK
        location = self._locations.pop(0)
        return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()

    def _secured(self, accepted: socket.socket) -> socket.socket:
        if accepted.recv(1, socket.MSG_PEEK) != _TLS_HANDSHAKE:
            return accepted
        context = self._context(accepted.getsockname()[0])

        def named(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            if name is not None:
                connection.context = self._context(name)

        context.sni_callback = named
        return context.wrap_socket(accepted, server_side=True)

    def _context(self, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate(name))
        return context

    @cache  # noqa: B019  (lives as long as the process)
    def _certificate(self, name: str) -> Path:
        """A file with a key and the certificate of `name`, which is an address or a host."""
        issuer = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        root = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "lab")]))
            .issuer_name(root.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _TEN_MINUTES)
            .not_valid_after(now + _TEN_MINUTES)
            .add_extension(x509.SubjectAlternativeName([_general_name(name)]), critical=False)
            .sign(issuer, hashes.SHA256())  # type: ignore[arg-type]
        )
        file = self._folder / f"{certificate.serial_number}.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
        return file


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
