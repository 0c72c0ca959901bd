"""What the serving chapter of the design asks to be verified, and which tests do: the rows of docs/verification.md.

A test is named without what all of them share: `contracts/sse:name` is tests/contracts/test_sse.py::test_name.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """What has to be shown, the tests that show it, and what is missing, if anything is."""

    asked: str
    shown: str
    tests: tuple[str, ...]
    missing: str = ""


VERIFICATION = (
    Row(
        "launch arguments",
        "pinned, loopback, no UI or agent, explicit device and paged attention, an argument vector without a shell",
        (
            "contracts/launch:the_seeds_plan_is_the_seeds_vector",
            "contracts/launch:only_what_is_asked_for_is_in_the_vector",
            "contracts/launch:no_name_becomes_another_argument",
            "contracts/launch:what_a_version_lacks_is_refused_with_the_version_that_has_it",
            "contracts/launch:what_steers_the_engine_from_outside_is_scrubbed",
        ),
    ),
    Row(
        "serve identity",
        "a change of any value is another identity; wrong versions, digests and revisions are refused",
        (
            "contracts/release:any_changed_value_is_another_identity",
            "contracts/release:every_field_is_covered_by_the_identity_test",
            "contracts/release_refusals:a_manifest_that_is_not_right_is_refused_by_name",
        ),
    ),
    Row(
        "media staging",
        "only typed paths named by digest are constructed, and only whole files are staged",
        (
            "contracts/artifact:the_list_of_types_is_closed",
            "storage/staging:what_is_not_whole_is_never_staged",
            "serving/staged_media:other_urls",
            "serving/staged_media:verified_bytes",
        ),
    ),
    Row(
        "request order",
        "image, audio, video and text, with the order of artifacts and locators, survive serialisation",
        (
            "contracts/request:parts_are_serialised_in_the_bundles_order",
            "contracts/ordering:the_model_sees_the_parts_in_the_bundles_order",
            "serving/golden:order_is_meaning",
        ),
    ),
    Row(
        "request bounds",
        "modality, count, media bytes, output tokens and JSON bytes fail each by its own name",
        (
            "contracts/request:each_bound_refuses_by_its_own_name",
            "contracts/request:bounds_are_inclusive_maxima",
            "contracts/release:only_accepted_modalities_are_admitted",
        ),
    ),
    Row(
        "readiness",
        "the exact route must be there once as loaded, and answer a question with a known answer",
        ("serving/wire:readiness", "serving/wire:readiness_of_another_route", "serving/wire:readiness_of_nobody"),
    ),
    Row(
        "stream success",
        "keep-alives, chunks, usage and [DONE] make one checked answer with a receipt",
        (
            "contracts/completion:a_whole_answer_is_complete",
            "inference/client:whole_answer",
            "storage/verify:what_was_recorded_is_valid",
        ),
    ),
    Row(
        "terminal state",
        "without finish, usage or [DONE] nothing is complete",
        (
            "contracts/completion:each_broken_stream_ends_by_its_own_rule",
            "contracts/completion:no_prefix_of_a_good_stream_is_complete",
            "inference/client:fault",
        ),
    ),
    Row(
        "chunk stability",
        "a model, choice or response id that drifts is refused",
        (
            "contracts/completion:each_broken_stream_ends_by_its_own_rule",
            "contracts/completion:without_a_route_any_one_model_will_do_but_only_one",
        ),
    ),
    Row(
        "named events",
        "events of agents, which no request asks for, are refused by name",
        (
            "contracts/completion:each_broken_stream_ends_by_its_own_rule",
            "contracts/completion:each_vector_has_its_outcome_in_every_partition",
        ),
    ),
    Row(
        "stream bounds",
        "wire bytes, events and answer bytes are independent, and so are the other bounds of a stream",
        (
            "contracts/completion:each_bound_ends_the_stream_by_its_own_name",
            "contracts/sse:every_bound_is_an_inclusive_maximum",
            "inference/http_head:heads_are_bounded_as_they_come",
            "inference/client:deadline",
        ),
    ),
    Row(
        "identities",
        "what changes in serving, request or stream changes its digest",
        (
            "contracts/release:any_changed_value_is_another_identity",
            "contracts/request:every_part_of_a_question_is_in_its_digest",
            "contracts/sse:the_running_digest_is_that_of_the_bytes_fed",
            "storage/verify:a_flipped_byte_in_any_blob_is_invalid_and_names_it",
        ),
    ),
)

EXERCISES = (
    Row(
        "1. an incremental decoder",
        "fed byte by byte and at random cuts, it sees what it sees whole, and the digest is that of the bytes",
        (
            "contracts/sse_format:each_case_of_the_format_is_read_as_the_standard_says",
            "contracts/sse_format:big_lines_are_read_as_small_ones",
            "contracts/sse:any_bytes_are_events_or_a_violation_in_every_partition",
            "contracts/sse:the_running_digest_is_that_of_the_bytes_fed",
            "contracts/completion:any_bytes_end_with_one_outcome_in_every_partition",
        ),
    ),
    Row(
        "2. length termination",
        "a typed outcome with text and usage that is never an answer; a retry changes one budget where permitted",
        (
            "contracts/completion:a_length_limited_answer_keeps_text_and_usage_and_is_no_answer",
            "contracts/retry:what_follows_an_attempt",
            "contracts/retry:no_history_makes_more_attempts_or_tokens_than_permitted",
            "pipeline/retries:a_budget_grows_where_the_bundle_permits",
        ),
    ),
    Row(
        "3. authorised staging",
        "another tenant's file cannot be named, and no file goes while a lease on it is held",
        (
            "storage/staging:tenants_have_files_of_their_own",
            "storage/staging:a_file_stays_while_one_of_two_leases_names_it",
            "storage/chaos:no_file_is_missing_under_a_live_lease_and_nothing_is_left",
            "contracts/lease:a_holder_stops_before_anybody_takes_the_file",
        ),
    ),
    Row(
        "4. live header validation",
        "status, content type, request id and headers are judged before the stream; an error is shown masked, bounded",
        (
            "inference/client:fault",
            "inference/client:message_is_told",
            "inference/client:whether_another_try_can_help_is_told_by_the_message",
            "contracts/profile_errors:what_an_error_means",
            "inference/http_head:what_is_no_head_is_refused",
            "contracts/engine_text:any_text_becomes_one_bounded_line",
        ),
    ),
    Row(
        "5. embedded and service compared",
        "one contract for both, so that either can be measured",
        ("serving/golden:answer",),
        "no comparison of memory, hops and failure domains for a target",
    ),
    Row("6. quantisation evaluated", "quality and cost of one quantised release against plain", (), "no evaluation"),
    Row(
        "7. remote media",
        "an isolated fetcher with vetted addresses, redirects and bounds; the worker gets staged files only",
        (
            "contracts/network_policy:published_case",
            "intake/fetcher:a_denied_address_is_never_dialled",
            "intake/fetcher:hostile_answer_ends_by_its_rule",
            "lab/lab:nothing_forbidden_is_contacted",
            "lab/lab:case_ends_by_its_rule",
            "sandbox/confine:fetcher_is_refused",
        ),
    ),
    Row(
        "8. streams of tools",
        "no named event is silently dropped, and a tool call is a violation",
        ("contracts/completion:each_broken_stream_ends_by_its_own_rule",),
        "no states for approval, progress and produced files: the product has no tools",
    ),
)

CHECKLIST = (
    Row(
        "Why is `serve -m org/model` not a reproducible release?",
        "The name pins neither binary nor model bytes; a manifest without them is refused.",
        ("contracts/release_refusals:no_key_may_be_missing",),
    ),
    Row(
        "What does `/v1/models` prove, and what must be added?",
        "A loaded route, nothing more; the embedded worker also states the identity of its release.",
        ("serving/wire:health_and_models", "serving/embedded_worker:identity_is_the_same_everywhere"),
    ),
    Row(
        "Why is a health 200 not enough?",
        "It stays green with a dead engine; the last gate asks a question with a known answer.",
        ("serving/wire:readiness", "serving/wire:readiness_without_staging"),
    ),
    Row(
        "Why must staging precede the request?",
        "What the worker opens must be what was judged; a lost lease ends the work.",
        ("storage/staging:what_is_not_whole_is_never_staged", "pipeline/holding:lost_lease_ends_work"),
    ),
    Row(
        "Which URLs can read files or reach inside?",
        "All but those of the policy, and on the worker's side all but staged names.",
        ("contracts/network_policy:url_is_denied_by_its_rule", "serving/staged_media:traps"),
    ),
    Row(
        "Why is the order of parts meaning?",
        "The model sees another prompt, and the question's digest is another.",
        ("serving/golden:order_is_meaning", "contracts/request:the_ordering_form_is_in_the_digest"),
    ),
    Row(
        "What makes success besides text?",
        "Finish, usage and [DONE] of one response, and the end of the bytes.",
        ("contracts/completion:no_prefix_of_a_good_stream_is_complete",),
    ),
    Row(
        "Why does a closed connection not prove that computing stopped?",
        "The engine notices with its next token; the client closes, and the worker is seen to notice.",
        ("inference/client:cancellation_closes", "serving/wire:lost_reader"),
        "no proof that an external engine's device work stopped",
    ),
    Row(
        "How do sequences, batch size and admission differ?",
        "Admission is ours: by weight, in order, before the engine's own caps.",
        ("contracts/admission:never_over_capacity", "inference/pool:heavy_is_not_overtaken"),
    ),
    Row(
        "What does paged attention improve?",
        "Fragmentation, not the need for memory; a prompt that does not fit ends in a known way.",
        (
            "contracts/completion:a_known_defect_is_named_by_the_profile_that_has_it",
            "contracts/launch:what_is_asked_for_is_in_the_vector",
        ),
        "no measurement on a device",
    ),
    Row(
        "Why can prefix caching cross a privacy boundary?",
        "Its timing tells what others asked; the cache is part of the release's identity.",
        ("contracts/release:any_changed_value_is_another_identity",),
        "no timing test between tenants",
    ),
    Row(
        "Why is `--quant` not an exact artifact?",
        "It names a way to choose; a release names bytes.",
        ("contracts/release_refusals:a_manifest_that_is_not_right_is_refused_by_name",),
    ),
    Row(
        "When would one embed the SDK?",
        "For one box: the embedded worker is a child that dies with its parent.",
        ("serving/embedded_worker:dies_with_parent", "serving/embedded_worker:death_is_seen"),
    ),
    Row(
        "Which features add authority and are off?",
        "Agents, search, code, shells, tools and sessions: neither flag nor field for them can be expressed.",
        (
            "contracts/launch:only_what_is_asked_for_is_in_the_vector",
            "contracts/request:only_the_contracts_fields_are_sent",
        ),
    ),
)
