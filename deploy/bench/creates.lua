-- Load for wrk: POST /v1/links, each request a new link under a new key.
-- API_KEYS: keys separated by spaces, one account each, used in turn.
-- PAUSE_MS: time between an answer and the next request of its connection, on average; none if
-- it is not set.

local keys = {}
for key in os.getenv("API_KEYS"):gmatch("%S+") do
   keys[#keys + 1] = "Bearer " .. key
end

local threads = 0
function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

local prefix, count = "", 0
function init()
   math.randomseed(os.time() * 1000 + number)
   -- A UUIDv4 but for its last 12 digits, which are counted.
   prefix = string.format("%08x-%04x-4%03x-8%03x-", math.random(0, 0xffffffff),
      math.random(0, 0xffff), number, math.random(0, 0xfff))
end

function request()
   count = count + 1
   return wrk.format("POST", nil, {
      ["Authorization"] = keys[count % #keys + 1],
      ["Content-Type"] = "application/json",
      ["Idempotency-Key"] = prefix .. string.format("%012x", count),
   }, '{"destination_url":"https://example.com/some/path?n=' .. count .. '"}')
end

local pause = tonumber(os.getenv("PAUSE_MS") or "")
if pause then
   -- Spread out, so that connections do not ask in step.
   function delay()
      return math.random(0, 2 * pause)
   end
end

function done(summary, latency)
   io.write(string.format("creates/s %.0f  p50 %.1f ms  p99 %.1f ms  answers other than 2xx %d\n",
      summary.requests / summary.duration * 1e6, latency:percentile(50) / 1000,
      latency:percentile(99) / 1000, summary.errors.status))
end
