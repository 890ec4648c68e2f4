-- GET of one quick paste with an API key. All requests are the same, so wrk builds the request once.
wrk.headers["x-api-key"] = os.getenv("BENCH_KEY")
dofile(os.getenv("BENCH_LUA") .. "/report.lua")
