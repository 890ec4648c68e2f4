-- Prints the counts of wrk on one line, for the program that runs it. Latencies are microseconds.
function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    "RESULT {\"requests\":%d,\"micros\":%d,\"p50\":%d,\"p99\":%d,\"connect\":%d,\"read\":%d,\"write\":%d,\"status\":%d,\"timeout\":%d}\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.status, e.timeout))
end
