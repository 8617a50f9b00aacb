// Receives webhooks: checks each signature, and prints each message once, however often it comes.
//
// usage: node receive_webhooks.js [PORT]. WEBHOOK_SECRET is the secret of the webhook (whsec_…), PORT is 3000 by
// default. Needs the package standardwebhooks.

import { createServer, type IncomingMessage } from "node:http";
import { Webhook } from "standardwebhooks";

const BODY_BYTES_MAX = 256 * 1024;

const webhook = new Webhook(process.env.WEBHOOK_SECRET ?? "");
// In your system a unique column: in one transaction with your own change, a crash loses neither.
const receivedIds = new Set<string>();

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > BODY_BYTES_MAX) throw new Error("the body is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

interface Message {
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

/** Returns the messages of a request, each with its id: a webhook that has in_order gets lists. */
function messagesOf(body: Message, requestId: string): [string, Message][] {
  if (body.type !== "events") return [[requestId, body]];
  const items = body.data.items as (Message & { id: string })[];
  return items.map((item) => [item.id, item]);
}

/** Returns the status of the answer; an error stands for a request that is not genuine. */
async function receive(request: IncomingMessage): Promise<number> {
  const body = webhook.verify(await bodyOf(request), request.headers as Record<string, string>) as Message;
  for (const [id, message] of messagesOf(body, String(request.headers["webhook-id"]))) {
    if (receivedIds.has(id)) continue;
    receivedIds.add(id);
    console.log(message.type, id);
  }
  return 204;
}

const server = createServer((request, response) => {
  receive(request)
    .catch(() => 401)
    .then((status) => response.writeHead(status).end());
});
server.listen(Number(process.argv[2] ?? 3000), "127.0.0.1");
