"""The sampling parameters that a bundle may ask for: a closed list, and what a profile does with each.

What is not listed cannot be expressed, so nothing that starts a tool, a search or a session can. A parameter is sent
only where the profile honours it. What the engine would ignore is refused, or, where the bundle chose `record`, noted
as requested and not honoured; it is never sent. What the engine takes in another sense than its documents say is
refused whatever the bundle chose: neither sending nor leaving it out would be what was asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from contracts.errors import ContractRefused
from contracts.profile import Profile
from contracts.profiles_table import FieldUse

_DECIMAL = re.compile(r"-?[0-9]{1,32}(?:\.[0-9]{1,340})?", re.ASCII)
_Penalty = Annotated[float, Meta(ge=-2, le=2)]


class NotHonoured(str, Enum):
    """What happens to a parameter that the release's engine ignores."""

    REFUSE = "refuse"
    RECORD = "record"


class ParametersDocument(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What may be asked beyond the budget and the temperature. Absent means the engine's default."""

    seed: Annotated[int, Meta(ge=0, le=2**53 - 1)] | UnsetType = UNSET
    top_p: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET
    top_k: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    min_p: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    presence_penalty: _Penalty | UnsetType = UNSET
    frequency_penalty: _Penalty | UnsetType = UNSET
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | UnsetType = UNSET
    stop: (
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(min_length=1, max_length=4)]
        | UnsetType
    ) = UNSET

    def asked(self) -> dict[str, Any]:
        """The values on the wire, by name in the order of this list."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}

    def identity(self) -> dict[str, Any]:
        """The form that identities hold: decimals are text, because identities hold no floats."""
        return {name: _identity(value) for name, value in self.asked().items()}


NO_PARAMETERS = ParametersDocument()


@dataclass(frozen=True, slots=True)
class Judged:
    """`sent` goes into the request; `not_honoured` names what was asked for and is not sent."""

    sent: dict[str, Any] = field(hash=False)
    not_honoured: tuple[str, ...]


def judge_parameters(asked: ParametersDocument, profile: Profile, choice: NotHonoured) -> Judged:
    """What of `asked` is sent to an engine of `profile`.

    Raises ContractRefused (`parameter-not-honoured`, `parameter-deviates`) that names field and version.
    """
    sent: dict[str, Any] = {}
    noted: list[str] = []
    for name, value in asked.asked().items():
        use = profile.fields.get(name, FieldUse.IGNORED)
        if use is FieldUse.HONOURED:
            sent[name] = value
        elif use is not FieldUse.IGNORED:
            reason = f"{profile.version} has {name} as {use.value}: it would not do what was asked"
            raise ContractRefused("parameter-deviates", reason)
        elif choice is NotHonoured.REFUSE:
            reason = f"{profile.version} ignores {name}; leave it out, or ask with not_honoured: record"
            raise ContractRefused("parameter-not-honoured", reason)
        else:
            noted.append(name)
    return Judged(sent, tuple(noted))


def parameters_of(identity: Any) -> ParametersDocument:
    """The inverse of `ParametersDocument.identity`. Raises ContractRefused (`parameters`) for anything else."""
    try:
        read = {name: _value(name, value) for name, value in identity.items()}
        found = msgspec.convert(read, ParametersDocument)
    except (AttributeError, TypeError, ValueError) as error:  # msgspec's ValidationError is a ValueError
        raise ContractRefused("parameters", "expected parameters as a question's document has them") from error
    if found.identity() != identity:
        raise ContractRefused("parameters", "the parameters are not in the form that identities hold")
    return found


def decimal_string(value: float) -> str:
    """`value` as the shortest decimal that reads back as it, without exponent: 0 is "0", 0.7 is "0.7"."""
    return format(Decimal(repr(float(value) + 0.0)).normalize(), "f")  # adding zero turns -0.0 into 0.0


def _identity(value: Any) -> Any:
    if isinstance(value, float):
        return decimal_string(value)
    return list(value) if isinstance(value, tuple) else value


def _value(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not _DECIMAL.fullmatch(value):
        raise ValueError(f"{name} is no decimal")
    return float(value)
