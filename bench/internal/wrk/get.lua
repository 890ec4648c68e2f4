-- GET of one quick paste with an API key. The requests are all the same, so that wrk builds them once.
wrk.headers["x-api-key"] = os.getenv("BENCH_KEY")
dofile(os.getenv("BENCH_LUA") .. "/report.lua")
