"""Documents of the streams, and validators of their records."""

import functools
import json
import pathlib
import sys

from jsonschema import Draft7Validator, Draft202012Validator

GOLDEN = [pathlib.Path("core/tests/events"), pathlib.Path("core/clicks/tests/records")]
SCHEMAS = pathlib.Path("docs/schemas")
DOCUMENT = pathlib.Path("docs/asyncapi.json")


def check(is_true, complaint):
    if not is_true:
        sys.exit(f"streams: {complaint}")


def valid(validator, value, what):
    # Collecting all errors is much slower than a yes or no.
    if not validator.is_valid(value):
        errors = "; ".join(error.message for error in validator.iter_errors(value))
        sys.exit(f"streams: {what} is not valid: {errors}")


def check_documents(asyncapi_schema):
    """Checks the documents. Returns the validators of headers by event type, and of payloads by schema."""
    document = json.loads(DOCUMENT.read_text())
    valid(Draft7Validator(json.loads(pathlib.Path(asyncapi_schema).read_text())), document, str(DOCUMENT))
    resolve_all(document, document)
    schemas = [json.loads(path.read_text()) for path in sorted(SCHEMAS.iterdir())]
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
    payloads = {schema["$id"]: Draft202012Validator(schema) for schema in schemas}
    for path in sorted(path for folder in GOLDEN for path in folder.iterdir()):
        event_type, version = path.name.split(".")[:2]
        validator = payloads[f"urn:linkledger:schema:{event_type}:{version}"]
        valid(validator, json.loads(path.read_text()), str(path))
    headers = {}
    for message in document["components"]["messages"].values():
        inlined = Draft7Validator(resolve(document, message["payload"]["$ref"]))
        headers[message["name"]] = Draft7Validator(message["headers"])
        for example in message["examples"]:
            valid(headers[message["name"]], example["headers"], f"the example of {message['name']}")
            valid(inlined, example["payload"], f"the example of {message['name']}")
    return headers, payloads


def resolve(document, reference):
    check(reference.startswith("#/"), f"{reference} leads out of {DOCUMENT}")
    return functools.reduce(lambda place, step: place[step], reference[2:].split("/"), document)


def resolve_all(document, place):
    if isinstance(place, dict):
        if "$ref" in place:
            resolve(document, place["$ref"])
        place = list(place.values())
    if isinstance(place, list):
        for part in place:
            resolve_all(document, part)
