"""Hooks of schemathesis for the registry: each POST request gets an idempotency key of its own.

The server answers a repeated key with the first response, whatever the body. Schemathesis sends short keys again and again, and would
take such a response to an invalid body for an accepted one.
"""

import itertools

import schemathesis

NUMBERS = itertools.count(1)


@schemathesis.hook
def before_call(context, case, kwargs):
    for name, key in (case.headers or {}).items():
        # An empty key stays empty, because the server must refuse it. A key that is too long stays too long.
        if name.lower() == "idempotency-key" and key:
            case.headers[name] = f"{key}-{next(NUMBERS)}"
