// The state of the service besides its followers: publishing, projectors, clicks, snapshots; generations that are not
// served; the latest failures of projectors.

import { element } from "../console/dom.js";
import { count, number } from "../console/format.js";
import { cell, duration, facts, sentence, table, time } from "./layout.js";

/** Age in seconds of the oldest failure that is shown. */
const ERRORS_SHOWN_FOR_S = 3600;
const ERRORS_SHOWN_MAX = 3;

const ago = (seconds) => (seconds === null ? "never" : `${duration(seconds)} ago`);

/** Returns the shards with their claims, which are the same for all projections. */
const claims = (projections) => projections[0]?.shards ?? [];

/** Returns the projectors with the number of their shards. */
const projectors = (projections) => {
  const held = claims(projections).filter(({ owner, state }) => owner && state !== "unattended");
  const owners = Object.entries(Object.groupBy(held, ({ owner, version }) => `${owner} (${version})`));
  if (owners.length === 0) return "none claims a shard";
  return owners.map(([owner, shards]) => `${owner}: ${count(shards.length, "shard")}`).join(", ");
};

const publishing = ({ is_paused: isPaused, paused_by: by, backlog_events: events, backlog_seconds: seconds, refusal }) => {
  const backlog = events === 0 ? "everything is published" : `${count(events, "event")} to publish, the oldest for ${duration(seconds)}`;
  const pause = isPaused && `paused${by ? ` by ${by.operator}${by.reason ? `: ${by.reason}` : ""}` : ""}`;
  return [backlog, pause, refusal && `stopped: ${refusal}`].filter(Boolean).join("; ");
};

const counting = (clicks) => {
  if (!clicks) return ["cannot be read"];
  const { recorders, complete_until: until, lag_seconds: lag, read_to_end_seconds_ago: readAgo, last_batch_seconds_ago: batchAgo, missing } = clicks;
  const complete = until === null ? "not complete yet" : `complete until ${recorders === 0 ? "" : `${duration(lag)} ago`}`;
  return [
    recorders === 0 ? "no recorder sends heartbeats; " : `${count(recorders, "recorder")}; `,
    complete,
    until !== null && recorders === 0 && time(until),
    `; read to the end ${ago(readAgo)}, last batch ${ago(batchAgo)}`,
    missing > 0 && `; ${count(missing, "record")} lost`,
  ];
};

const holder = ({ pid, application_name: name, user, state }) =>
  `${pid === null ? "a prepared transaction" : `process ${pid}`} (${name}, user ${user}, ${state})`;

const snapshot = ({ is_complete: isComplete, oldest }) => {
  const text = oldest === null ? "none is held" : `${duration(oldest.age_seconds)}, ${holder(oldest)}`;
  return isComplete ? text : `${text}; other users' sessions are not seen`;
};

/** Returns the panel of single facts. */
export const factsPanel = ({ log_epoch: epoch, projections, relay, clicks, snapshots }) => facts([
  ["Log", `epoch ${epoch}, ${count(projections[0]?.head ?? 0, "event")}`],
  ["Relay to Kafka", publishing(relay)],
  ["Projectors", projectors(projections)],
  ["Clicks", element("span", null, counting(clicks))],
  ["Oldest snapshot", snapshot(snapshots)],
]);

const generationRow = ({ projection, generation, phase, position, head, created_at: createdAt }) => element(
  "tr",
  null,
  element("th", { scope: "row" }, `${projection} ${generation}`),
  cell("Phase", phase.replaceAll("_", " ")),
  cell("Events", `${number(position)} of ${number(head)}`, "number"),
  cell("Begun", time(createdAt)),
);

/** Returns the panel of generations that are not served; nothing without one. */
export const generationsPanel = (projections) => {
  const others = projections.flatMap(({ generations }) => generations).filter(({ phase }) => phase !== "active");
  if (others.length === 0) return null;
  return element(
    "section",
    null,
    element("h2", null, "Generations that are not served"),
    table("Generations that are not served", ["Generation", "Phase", ["Events", "number"], "Begun"], element("tbody", null, others.map(generationRow))),
  );
};

/** Returns the panel of the latest failures, equal ones once; nothing without one. */
export const errorsPanel = (projections) => {
  const recent = claims(projections)
    .filter(({ last_error: error }) => error && error.seconds_ago < ERRORS_SHOWN_FOR_S)
    .map(({ shard, last_error: { seconds_ago: age, text } }) => ({ shard, age, text }))
    .sort((one, other) => one.age - other.age);
  const groups = Object.values(Object.groupBy(recent, ({ text }) => text)).slice(0, ERRORS_SHOWN_MAX);
  if (groups.length === 0) return null;
  return element(
    "section",
    null,
    element("h2", null, "Latest errors of projectors"),
    element("ul", null, groups.map(([first, ...others]) => element(
      "li",
      null,
      `${duration(first.age)} ago, in shard ${first.shard}${others.length > 0 ? ` and ${others.length} more` : ""}: `,
      sentence(first.text),
    ))),
  );
};
