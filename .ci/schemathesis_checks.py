"""Checks of answers that both APIs have in common."""

import schemathesis


def stands_alone(case):
    """Returns True for a test case that is no step of a sequence of requests."""
    return case.meta is not None and case.meta.phase.name.value != "stateful"


@schemathesis.check
def code_is_documented(context, response, case):
    """Allows only codes that the operation lists for the status, by their examples."""
    if response.headers.get("content-type", [""])[0].startswith("application/problem+json"):
        problem = response.json()
        assert problem["status"] == response.status_code, problem
        documented = case.operation.responses.find_by_status_code(response.status_code)
        # Another check refuses a status that is not documented.
        if documented is not None:
            examples = documented.definition["content"]["application/problem+json"]["examples"]
            assert problem["code"] in examples, f"{response.status_code} {problem['code']}"


@schemathesis.check
def unavailable_is_only_behind(context, response, case):
    """Allows 503 only for reads while the read tables lag, which a busy machine can cause."""
    if response.status_code == 503:
        code = response.json()["code"]
        assert code == "read_model_behind", f"503 {code}"
