# One request to the session's model API; prints the status and the start of what came, then how many bytes came in all.
import json, os, sys, time, urllib.request, urllib.error

body = json.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}).encode()
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": os.environ["ANTHROPIC_API_KEY"]})
limit = int(sys.argv[1])
try:
    answer = urllib.request.urlopen(request, timeout=4)
except urllib.error.HTTPError as e:
    answer = e
except Exception as e:
    print("failed", type(e).__name__, e)
    sys.exit(0)
print("status", getattr(answer, "status", None) or answer.code, flush=True)
count, first = 0, b""
try:
    while count < limit:
        block = answer.read(65536)
        if not block:
            break
        first = first or block[:300]
        count += len(block)
except Exception as e:
    print("cut", type(e).__name__)
print("begins", first.decode(errors="replace"))
print("bytes", count, flush=True)
answer.close()
if count >= limit:
    time.sleep(1.5)
