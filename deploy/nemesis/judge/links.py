"""Links by the log: the state that each event leaves, and what the services may answer of a state."""

import datetime
import json

DETAILS = ("title", "external_id", "tags", "expires_at", "expired_url")
FOREVER = float("inf")


def next_state(state, event):
    """Returns the state of a link after an event: members, and the roles that stop the link; None once it is deleted."""
    kind, payload = event["type"], event["payload"]
    if kind == "LinkCreated":
        return {"stops": set(), **{name: payload[name] for name in ("destination_url", *DETAILS) if name in payload}}
    if kind == "LinkDeleted" or state is None:
        return None
    state = dict(state)
    if kind == "LinkDestinationChanged":
        state["destination_url"] = payload["destination_url"]
    elif kind == "LinkDetailsChanged":
        for name, change in payload["changes"].items():
            state.pop(name, None)
            if "to" in change:
                state[name] = change["to"]
    else:
        role = {payload["by"]}
        state["stops"] = state["stops"] | role if kind == "LinkDisabled" else state["stops"] - role
    return state


def state_in(header):
    """Returns the state that the header of a record tells, in the form of `next_state`."""
    link = json.loads(header)
    if link.get("deleted"):
        return None
    stops = {role for role in ("operator", "owner") if link.get(f"disabled_by_{role}")}
    return {"stops": stops, "destination_url": link["destination_url"], **link.get("details", {})}


def stopped_by(state):
    """Returns the role that the API names, the operator before the owner, or None."""
    return min(state["stops"], default=None)


def shown(state):
    """Returns the members that the API shows of a state."""
    found = {name: value for name, value in state.items() if name != "stops"}
    return found | ({"disabled": True, "disabled_by": stopped_by(state)} if state["stops"] else {})


def shown_in(body):
    """Returns the same members of an answer."""
    return {name: body[name] for name in ("destination_url", *DETAILS, "disabled", "disabled_by") if name in body}


def stored(value):
    """Returns a value as it is stored: tags sorted; null and an empty list are no value."""
    return sorted(value) or None if isinstance(value, list) else value


def has_all(state, sent):
    """Returns true if a state has what a create or a change asked for."""
    if "disabled" in sent and ("owner" in state["stops"] if sent["disabled"] else not state["stops"]) is False:
        return False
    return all(state.get(name) == stored(value) for name, value in sent.items() if name not in ("disabled", "slug"))


def can_cause(sent, event):
    """Returns true if a change that sent these members can have caused an event."""
    kind, payload = event["type"], event["payload"]
    if kind == "LinkDestinationChanged":
        return sent.get("destination_url") == payload["destination_url"]
    if kind in ("LinkDisabled", "LinkEnabled"):
        return payload.get("by") == "owner" and "disabled" in sent and bool(sent["disabled"]) == (kind == "LinkDisabled")
    if kind != "LinkDetailsChanged":
        return False
    if "expires_at" in sent and sent["expires_at"] is None:
        sent = {"expired_url": None, **sent}
    return all(name in sent and stored(sent[name]) == change.get("to") for name, change in payload["changes"].items())


def expiry(state):
    """Returns the time at which a state expires."""
    return datetime.datetime.fromisoformat(state["expires_at"]).timestamp() if "expires_at" in state else FOREVER


def redirects(state, clock):
    """Returns the answers of the short host to a state: (status, address), by a clock between two times."""
    if state is None or state["stops"]:
        return {(410, None)}
    earliest, latest = clock
    found = {(302, state["destination_url"])} if expiry(state) > earliest else set()
    if expiry(state) <= latest:
        found.add((302, state["expired_url"]) if "expired_url" in state else (410, None))
    return found


def meets(state, filters, clock):
    """Returns true or false if a state meets the filters of a list or does not, None if the clock decides."""
    if state is None or not set(filters.get("tag", "").split(",")) - {""} <= set(state.get("tags", [])):
        return False
    if filters.get("external_id") not in (None, state.get("external_id")):
        return False
    if "state" not in filters:
        return True
    names = names_of(state, clock)
    return filters["state"] in names and (True if len(names) == 1 else None)


def names_of(state, clock):
    """Returns the states that lists may call a state: active, expired or disabled."""
    if state["stops"]:
        return {"disabled"}
    earliest, latest = clock
    return {name for name, can_be in (("active", expiry(state) > earliest), ("expired", expiry(state) <= latest)) if can_be}
