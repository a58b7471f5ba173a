-- One of sysbench's own scripts, CHAOS_SCRIPT, run until the file CHAOS_STOP is there instead of for a time that is known
-- before. An error ends no run: it is a line, FAILED, when all was still well and when the error came in us since 1970, and what was
-- said, and the thread continues with another connection. So it does, without an error, when the text of the file CHAOS_RENEW is
-- another one. BEGUN is a thread's first event.
--
-- That is not left to --mysql-ignore-errors: what sysbench 1.0.20 does to connect again ends it with a fault in libmariadb.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds, microseconds; } chaos_time;
int gettimeofday(chaos_time *time, void *zone);
int usleep(unsigned microseconds);
]]

require(os.getenv("CHAOS_SCRIPT"))

local run = event
-- When the last event had ended well, or the connection was asked for: what goes wrong has gone wrong since.
local well

local function now()
   local time = ffi.new("chaos_time")
   ffi.C.gettimeofday(time, nil)
   return tonumber(time.seconds) * 1000000 + tonumber(time.microseconds)
end

local function is_over()
   local file = io.open(os.getenv("CHAOS_STOP"))
   if file then
      file:close()
   end
   return file ~= nil
end

-- How often everybody was told to connect again.
local function generation()
   local file = io.open(os.getenv("CHAOS_RENEW"))
   local text = file and file:read("*a") or ""
   if file then
      file:close()
   end
   return text
end

local mine

function event(thread)
   if is_over() then
      return true
   end
   local now_is = generation()
   if mine and mine ~= now_is then
      sysbench.hooks.before_restart_event()
   end
   mine = now_is
   if not well then
      well = now()
      io.stdout:write("BEGUN\n")
      io.stdout:flush()
   end
   -- A load, and not a test of speed.
   ffi.C.usleep(20000)
   run(thread)
   well = now()
end

local function tell(said)
   io.stdout:write(string.format("FAILED %.0f %.0f %s\n", well, now(), said:gsub("\n", " ")))
   io.stdout:flush()
end

function sysbench.hooks.sql_error_ignorable(failure)
   tell(failure.sql_errno .. " " .. failure.sql_errmsg)
   return true
end

-- What is closed is forgotten first: it must not be closed again where this fails half way.
local function connect_again()
   well = now()
   if con then
      local lost = con
      con = nil
      close_statements()
      stmt = {}
      for table = 1, sysbench.opt.tables do
         stmt[table] = {}
      end
      lost:disconnect()
   end
   thread_init()
end

function sysbench.hooks.before_restart_event()
   while not is_over() do
      local done, failure = pcall(connect_again)
      if done then
         return
      end
      -- One that was already reported is a table. Why a statement could not be prepared is for sysbench's own output alone.
      if type(failure) == "string" then
         tell(failure)
      end
      ffi.C.usleep(100000)
   end
end
