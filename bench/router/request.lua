-- wrk's script: chat requests of about ARG1 bytes. ARG2 "varied": no two are alike, in head and body.
local size, varied, count = 1024, false, 0
local head = '{"model":"t","temperature":0,"max_tokens":64,"messages":[{"role":"user","content":"'
local line = "The quick brown fox jumps over the lazy dog, number %d. "

function init(args)
  size = tonumber(args[1] or "1024")
  varied = args[2] == "varied"
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Authorization"] = "Bearer sk-bench"
  math.randomseed(os.time())
  local text = {}
  local length = #head + 4
  while length < size do
    local part = line:format(#text)
    text[#text + 1] = part
    length = length + #part
  end
  wrk.body = head .. table.concat(text) .. '"}]}'
end

function request()
  if not varied then return wrk.format() end
  count = count + 1
  wrk.headers["x-request-id"] = ("%d-%d"):format(count, math.random(1, 2 ^ 30))
  return wrk.format(nil, nil, nil, head .. count .. wrk.body:sub(#head + 1))
end
