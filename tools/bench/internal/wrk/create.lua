-- POST of a quick paste with an API key.
wrk.method = "POST"
wrk.headers["x-api-key"] = os.getenv("BENCH_KEY")
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BENCH_BODY")
dofile(os.getenv("BENCH_LUA") .. "/report.lua")
