"""Asks a real embedded worker as the product does: question, request, client, whole wire."""

from __future__ import annotations

from contracts.artifact import Artifact
from contracts.limits import Limits
from contracts.question import Question
from contracts.request import ChatRequest, build_request
from inference.client import Submission, WorkerClient
from serving.embedded_worker import EmbeddedWorker
from tests.world import TENANT

LIMITS = Limits()


def request_for(worker: EmbeddedWorker, question: Question) -> ChatRequest:
    """The request for `question`, its media named where `tests.world.stage` puts them."""

    def staged_url(artifact: Artifact) -> str:
        return (worker.staging_root / TENANT / artifact.staged_name).as_uri()

    release = worker.release
    return build_request(
        question, profile=release.engine_profile(), route=release.route, staged_url=staged_url, limits=LIMITS
    )


def client_of(worker: EmbeddedWorker, limits: Limits = LIMITS) -> WorkerClient:
    """A client of one slot of `worker`."""
    release = worker.release
    return WorkerClient(worker.url, profile=release.engine_profile(), route=release.route, limits=limits)


async def ask(worker: EmbeddedWorker, question: Question, *, request_id: str = "test") -> Submission:
    """Ask one question through a client of its own."""
    async with client_of(worker) as client:
        return await client.submit(request_for(worker, question), request_id=request_id)
