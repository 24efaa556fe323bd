"""Walks the whole API with the Python SDK and verifies each delivery with the SDK's own verifier.

Usage: walk.py SERVER TOKEN VERSION. The script is the same for the generations 1.x and 2.x of the SDK, which name some calls
and fields differently.
"""

import sys
import time
from datetime import datetime, timedelta, timezone
from importlib.metadata import version

from svix import api
from svix.api import Svix, SvixOptions
from svix.exceptions import HttpError, HTTPValidationError
from svix.webhooks import Webhook, WebhookVerificationError

from receiver import TIMEOUT, Receiver

SERVER, TOKEN, VERSION = sys.argv[1:4]
IS_V2 = VERSION.startswith("2.")
# The names that differ between the generations.
TYPES = "event_types" if IS_V2 else "filter_types"
RATE = "throttle_rate" if IS_V2 else "rate_limit"

assert version("svix") == VERSION, f"svix {version('svix')} is installed, not {VERSION}"
svix = Svix(TOKEN, SvixOptions(server_url=SERVER))
receiver = Receiver()
verified = 0
STARTED = datetime.now(timezone.utc) - timedelta(minutes=1)
SUFFIX = f"py{VERSION.split('.')[0]}"
SECRET = "whsec_" + "c2VjcmV0" * 5


def options(name, **fields):
    """The options of a call; 1.x shares one class among all POSTs, and one among all lists of attempts."""
    shared = "PostOptions" if "idempotency_key" in fields else "MessageAttemptListOptions"
    return getattr(api, name if hasattr(api, name) else shared)(**fields)


def refused(status, code, call, *arguments):
    """Calls the server and asserts that it refuses."""
    try:
        call(*arguments)
    except HttpError as error:
        assert (error.status_code, error.code) == (status, code), (error.status_code, error.code, error.detail)
        assert error.detail, "an error explains itself"
    else:
        raise AssertionError(f"{call} was accepted, expected {status} {code}")


def invalid(location, call, *arguments):
    """Calls the server and asserts that it refuses a value at a location of the request."""
    try:
        call(*arguments)
    except HTTPValidationError as error:
        found = [list(problem.loc) for problem in error.detail]
        assert location in found, (location, found)
    else:
        raise AssertionError(f"{call} was accepted, expected 422 at {location}")


def verify(delivery, *secrets):
    """Verifies a delivery under each secret."""
    global verified
    for secret in secrets:
        Webhook(secret).verify(delivery.body, delivery.headers)
        verified += 1


def until(what, probe):
    """Repeats a call until it returns something."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        found = probe()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {TIMEOUT} s")


def pages(fetch, key=lambda item: item.id):
    """Lists in pages of two, to the end and back, and returns the keys of all items."""
    forward, iterator = [], None
    while True:
        page = fetch(iterator)
        forward.append([key(item) for item in page.data])
        assert len(page.data) <= 2
        if page.done:
            break
        iterator = page.iterator
    if len(forward) > 1:
        back = fetch(page.prev_iterator)
        assert [key(item) for item in back.data] == forward[-2], (back, forward)
    return [item for page in forward for item in page]


def walk_event_types():
    types = svix.event_type
    name, spare = f"invoice.paid.{SUFFIX}", f"invoice.sent.{SUFFIX}"
    schema = {"1": {"type": "object", "examples": [{"invoice": 17}]}}
    created = types.create(api.EventTypeIn(name=name, description="An invoice was paid", schemas=schema))
    assert created.name == name
    refused(409, "event_type_exists", types.create, api.EventTypeIn(name=name, description="again"))
    put = types.upsert if IS_V2 else types.update
    put_in = api.EventTypeUpsertIn if IS_V2 else api.EventTypeUpdate
    assert put(spare, put_in(description="An invoice was sent")).name == spare
    assert put(spare, put_in(description="Sent")).description == "Sent"
    assert types.patch(spare, api.EventTypePatch(description="Sent out")).description == "Sent out"
    assert types.get(spare).description == "Sent out"
    fetch = lambda iterator: types.list(api.EventTypeListOptions(limit=2, iterator=iterator, with_content=True))
    names = pages(fetch, key=lambda item: item.name)
    assert name in names and spare in names and names == sorted(names), names
    types.delete(spare)
    listed = types.list(api.EventTypeListOptions(limit=250))
    assert spare not in [item.name for item in listed.data]
    archived = types.list(api.EventTypeListOptions(limit=250, include_archived=True))
    assert spare in [item.name for item in archived.data]
    assert types.create(api.EventTypeIn(name=spare, description="Sent")).archived is False, "an archived type comes back"
    refused(404, "not_found", types.get, "no.such.type")
    return name, spare


def walk_applications():
    apps = svix.application
    uid = f"customer-{SUFFIX}"
    app = apps.create(api.ApplicationIn(name="Customer", uid=uid, metadata={"plan": "pro"}))
    assert app.id.startswith("app_") and app.uid == uid
    refused(409, "conflict", apps.create, api.ApplicationIn(name="Another", uid=uid))
    assert apps.get_or_create(api.ApplicationIn(name="Another", uid=uid)).id == app.id
    key = options("ApplicationCreateOptions", idempotency_key=f"key-{SUFFIX}")
    first = apps.create(api.ApplicationIn(name="Once"), key)
    assert apps.create(api.ApplicationIn(name="Twice"), key).id == first.id, "the first answer is replayed"
    assert apps.get(uid).name == apps.get(app.id).name == "Customer"
    put = apps.upsert if IS_V2 else apps.update
    other = put(f"other-{SUFFIX}", api.ApplicationIn(name="Other", uid=f"other-{SUFFIX}"))
    assert put(other.id, api.ApplicationIn(name="Other 2", uid=other.uid)).name == "Other 2"
    assert apps.patch(other.uid, api.ApplicationPatch(name="Other 3", **{RATE: 50})).name == "Other 3"
    ids = pages(lambda iterator: apps.list(api.ApplicationListOptions(limit=2, iterator=iterator)))
    assert {app.id, other.id, first.id} <= set(ids) and ids == sorted(ids), ids
    apps.delete(first.id)
    refused(404, "not_found", apps.get, first.id)
    invalid(["query", "limit"], apps.list, api.ApplicationListOptions(limit=251))
    return app, other


def walk_endpoints(app, name):
    endpoints = svix.endpoint
    every = endpoints.create(app.uid, api.EndpointIn(url=receiver.url("/all"), uid="all", secret=SECRET))
    typed = endpoints.create(app.id, api.EndpointIn(url=receiver.url("/typed"), description="one type", **{TYPES: [name]}))
    room = endpoints.create(app.uid, api.EndpointIn(url=receiver.url("/room"), channels=["room-1"], **{RATE: 100}))
    assert every.id.startswith("ep_") and getattr(typed, TYPES) == [name] and room.channels == ["room-1"]
    location = ["body", "eventTypes"]
    invalid(location, endpoints.create, app.uid, api.EndpointIn(url=receiver.url("/x"), **{TYPES: ["no.such.type"]}))
    invalid(["body", "url"], endpoints.create, app.uid, api.EndpointIn(url="not a url"))
    refused(409, "conflict", endpoints.create, app.uid, api.EndpointIn(url=receiver.url("/x"), uid="all"))
    ids = pages(lambda iterator: endpoints.list(app.uid, api.EndpointListOptions(limit=2, iterator=iterator)))
    assert ids == [room.id, typed.id, every.id], "the newest first"
    put = endpoints.upsert if IS_V2 else endpoints.update
    put_in = api.EndpointUpsertIn if IS_V2 else api.EndpointUpdate
    assert put(app.uid, "all", put_in(url=receiver.url("/all"), uid="all", description="put")).description == "put"
    assert endpoints.get_secret(app.uid, "all").key == SECRET, "a replacement keeps the secret"
    assert endpoints.patch(app.uid, "all", api.EndpointPatch(description="patched")).description == "patched"
    assert endpoints.get(app.uid, every.id).description == "patched"
    replace = endpoints.set_headers if IS_V2 else endpoints.update_headers
    replace(app.uid, "all", api.EndpointHeadersIn(headers={"X-Region": "eu", "Authorization": "Bearer abc"}))
    endpoints.patch_headers(app.uid, "all", api.EndpointHeadersPatchIn(headers={"X-Team": "billing"}))
    shown = endpoints.get_headers(app.uid, "all")
    headers = shown.headers if isinstance(shown.headers, dict) else shown.headers.to_dict()
    assert headers == {"X-Region": "eu", "X-Team": "billing"} and shown.sensitive == ["Authorization"], (headers, shown)
    return every, typed, room


def walk_messages(app, name, every, typed, room):
    messages = svix.message
    secret = svix.endpoint.get_secret(app.uid, typed.id).key
    key = options("MessageCreateOptions", idempotency_key=f"msg-{SUFFIX}")
    first = messages.create(app.uid, api.MessageIn(event_type=name, payload={"n": 1}, event_id="invoice-1"), key)
    assert messages.create(app.uid, api.MessageIn(event_type=name, payload={"n": 9}, event_id="invoice-1"), key).id == first.id
    refused(409, "conflict", messages.create, app.uid, api.MessageIn(event_type=name, payload={}, event_id="invoice-1"))
    verify(receiver.wait_for("/all", first.id)[0], SECRET)
    delivery = receiver.wait_for("/typed", first.id)[0]
    verify(delivery, secret)
    try:
        Webhook(SECRET).verify(delivery.body, delivery.headers)
    except WebhookVerificationError:
        pass
    else:
        raise AssertionError("an endpoint verified a request of another one")
    sent = {key.lower(): value for key, value in receiver.of("/all", first.id)[0].headers.items()}
    assert (sent["x-region"], sent["x-team"], sent["authorization"]) == ("eu", "billing", "Bearer abc"), sent
    other = messages.create(app.uid, api.MessageIn(event_type="other.type", payload={"n": 2}, channels=["room-1"], tags=["t"]))
    verify(receiver.wait_for("/all", other.id)[0], SECRET)
    verify(receiver.wait_for("/room", other.id)[0], svix.endpoint.get_secret(app.uid, room.id).key)
    assert not receiver.of("/typed", other.id) and not receiver.of("/room", first.id), "only subscribers get a message"
    assert messages.get(app.uid, first.id).event_id == messages.get(app.uid, "invoice-1").event_id == "invoice-1"
    assert pages(lambda iterator: messages.list(app.uid, api.MessageListOptions(limit=2, iterator=iterator)))[-1] == first.id
    found = messages.list(app.uid, api.MessageListOptions(event_types=[name], before=datetime.now(timezone.utc), after=STARTED))
    assert [message.id for message in found.data] == [first.id]
    assert [message.id for message in messages.list(app.uid, api.MessageListOptions(channel="room-1")).data] == [other.id]
    invalid(["body", "channels"], messages.create, app.uid, api.MessageIn(event_type=name, payload={}, channels=["a b"]))
    created = messages.create(
        f"inline-{SUFFIX}",
        api.MessageIn(event_type=name, payload={}, application=api.ApplicationIn(name="Inline", uid=f"inline-{SUFFIX}")),
    )
    assert svix.application.get(f"inline-{SUFFIX}").name == "Inline" and created.id.startswith("msg_")
    return first, other


def walk_attempts(app, name, first, other, every, typed):
    attempts = svix.message_attempt
    listed = until("the attempts", lambda: (found := attempts.list_by_msg(app.uid, first.id).data)[1:] and found)
    assert {attempt.endpoint_id for attempt in listed} == {every.id, typed.id}
    assert all(int(attempt.status) == 0 and attempt.response_status_code == 200 for attempt in listed), listed
    one = attempts.get(app.uid, first.id, listed[0].id)
    assert (one.id, one.msg_id, one.response) == (listed[0].id, first.id, "ok"), one
    by_endpoint = options("MessageAttemptListByEndpointOptions", event_types=[name], status_code_class=api.StatusCodeClass(200))
    assert [found.msg_id for found in attempts.list_by_endpoint(app.uid, typed.id, by_endpoint).data] == [first.id]
    of_endpoint = attempts.list_attempted_messages(app.uid, every.id).data
    assert [message.id for message in of_endpoint] == [other.id, first.id], of_endpoint
    of_message = attempts.list_attempted_destinations(app.uid, first.id).data
    assert {endpoint.id for endpoint in of_message} == {every.id, typed.id}
    until("the statistics", lambda: svix.endpoint.get_stats(app.uid, every.id).success == 2)
    attempts.resend(app.uid, first.id, typed.id)
    verify(receiver.wait_for("/typed", first.id, 2)[1], svix.endpoint.get_secret(app.uid, typed.id).key)
    refused(404, "not_found", attempts.get, app.uid, first.id, "atmpt_unknown")


def walk_rotation(app, name):
    endpoints = svix.endpoint
    endpoints.rotate_secret(app.uid, "all", api.EndpointSecretRotateIn())
    new = endpoints.get_secret(app.uid, "all").key
    assert new != SECRET

    def signed_with_both():
        message = svix.message.create(app.uid, api.MessageIn(event_type=name, payload={"rotated": True}))
        delivery = receiver.wait_for("/all", message.id)[0]
        verify(delivery, SECRET)
        try:
            verify(delivery, new)
        except WebhookVerificationError:
            return False
        return True

    # A worker learns of a rotation within seconds. Until then it signs with the old secret, which stays valid.
    until("a request under the new secret", signed_with_both)


def walk_operations(app, name):
    endpoints, tasks = svix.endpoint, api.BackgroundTask(*task_arguments())
    receiver.answer("/gone", 410)
    gone = endpoints.create(app.uid, api.EndpointIn(url=receiver.url("/gone")))
    secret = endpoints.get_secret(app.uid, gone.id).key
    lost = svix.message.create(app.uid, api.MessageIn(event_type=name, payload={"lost": True}))
    receiver.wait_for("/gone", lost.id)
    until("410 disables the endpoint", lambda: endpoints.get(app.uid, gone.id).disabled)
    missed = svix.message.create(app.uid, api.MessageIn(event_type=name, payload={"missed": True}))
    receiver.wait_for("/all", missed.id)
    refused(400, "endpoint_disabled", svix.message_attempt.resend, app.uid, missed.id, gone.id)
    receiver.answer("/gone", 200)
    assert endpoints.patch(app.uid, gone.id, api.EndpointPatch(disabled=False)).disabled is False
    recovery = endpoints.recover(app.uid, gone.id, api.RecoverIn(since=STARTED))
    assert recovery.id.startswith("qtask_")
    verify(receiver.wait_for("/gone", lost.id, 2)[1], secret)
    until("the recovery ends", lambda: status_of(tasks.get(recovery.id)) == "finished")
    replay = endpoints.replay_missing(app.uid, gone.id, api.ReplayIn(since=STARTED))
    verify(receiver.wait_for("/gone", missed.id)[0], secret)
    until("the replay ends", lambda: status_of(tasks.get(replay.id)) == "finished")
    long_ago = datetime.now(timezone.utc) - timedelta(days=15)
    invalid(["body", "since"], endpoints.recover, app.uid, gone.id, api.RecoverIn(since=long_ago))
    example = endpoints.send_example(app.uid, gone.id, api.EventExampleIn(event_type=name))
    delivery = receiver.wait_for("/gone", example.id)[0]
    verify(delivery, secret)
    assert delivery.body in (b'{"invoice":17}', b'{"invoice": 17}'), delivery.body
    return gone, lost


def task_arguments():
    return (svix._client, svix._httpx_client) if IS_V2 else (svix._client,)


def status_of(task):
    return getattr(task.status, "value", task.status)


def walk_expunge(app, lost, gone):
    svix.message.expunge_content(app.uid, lost.id)
    payload = svix.message.get(app.uid, lost.id, *([api.MessageGetOptions(with_content=True)] if IS_V2 else [])).payload
    assert (payload if isinstance(payload, dict) else payload.to_dict()) == {"expired": True}, payload
    refused(400, "missing_payload", svix.message_attempt.resend, app.uid, lost.id, gone.id)


def walk_access(app, other):
    access = svix.authentication.app_portal_access(app.uid, api.AppPortalAccessIn())
    assert access.url.startswith(SERVER) and access.token in access.url
    user = Svix(access.token, SvixOptions(server_url=SERVER))
    assert user.application.get(app.uid).id == app.id and user.endpoint.list(app.uid).data
    refused(403, "permission_denied", user.application.list)
    refused(404, "not_found", user.application.get, other.uid)
    refused(404, "not_found", user.endpoint.list, other.id)
    stranger = Svix(TOKEN[:-4] + "AAAA", SvixOptions(server_url=SERVER))
    refused(401, "authentication_failed", stranger.application.list)
    refused(404, "not_supported", svix.integration.list, app.uid)
    if IS_V2:
        svix.health.get()


def walk_deletion(app, gone):
    svix.endpoint.delete(app.uid, gone.id)
    refused(404, "not_found", svix.endpoint.get, app.uid, gone.id)
    svix.application.delete(app.uid)
    refused(404, "not_found", svix.endpoint.list, app.id)
    assert svix.application.create(api.ApplicationIn(name="Customer", uid=app.uid)).id != app.id, "deletion frees the uid"


name, _ = walk_event_types()
app, other = walk_applications()
every, typed, room = walk_endpoints(app, name)
first, second = walk_messages(app, name, every, typed, room)
walk_attempts(app, name, first, second, every, typed)
walk_rotation(app, name)
gone, lost = walk_operations(app, name)
walk_expunge(app, lost, gone)
walk_access(app, other)
walk_deletion(app, gone)
print(f"svix {VERSION} for Python: the walk is complete, {verified} deliveries verified")
