-- Requests of many accounts for many paths, in turn. Each line of the file BENCH_LIST has a key, a space and a path.
-- Each thread connects to one of BENCH_ADDRESSES ("host:port host:port").
local method, body = os.getenv("BENCH_METHOD"), os.getenv("BENCH_BODY")
local addresses = {}
for host, port in string.gmatch(os.getenv("BENCH_ADDRESSES"), "(%S+):(%d+)") do
  addresses[#addresses + 1] = { host = host, port = port }
end
local threads = 0
local requests, at = {}, 0

function setup(thread)
  local address = addresses[threads % #addresses + 1]
  thread.addr = wrk.lookup(address.host, address.port)[1]
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  for line in io.lines(os.getenv("BENCH_LIST")) do
    local key, path = string.match(line, "^(%S+) (%S+)$")
    local headers = { ["Host"] = wrk.headers["Host"], ["x-api-key"] = key }
    if body then headers["Content-Type"] = "application/json" end
    requests[#requests + 1] = wrk.format(method, path, headers, body)
  end
  at = math.floor(#requests / 2) * number -- threads begin at different places
end

function request()
  at = at % #requests + 1
  return requests[at]
end

dofile(os.getenv("BENCH_LUA") .. "/report.lua")
