-- sysbench's oltp_read_write, run until the file SWITCHOVER_STOP is there instead of for a time that is known before. An event
-- that took longer than SWITCHOVER_SLOW_US is a line, TOOK, with its begin and its end in us since 1970. So is an error that is
-- not about locks, FAILED, with what was said; it ends the run.
--
-- With SWITCHOVER_LEDGER each transaction writes two rows into the table "writes", with its thread and its turn, and has a line
-- of its own: DID with both, or NOT with both, the statement that has failed, and the error.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds, microseconds; } event_time;
int gettimeofday(event_time *time, void *zone);
]]

require("oltp_read_write")

local run, begin_it, commit_it = event, begin, commit
local slow = tonumber(os.getenv("SWITCHOVER_SLOW_US"))
local keeps_ledger = os.getenv("SWITCHOVER_LEDGER") == "1"
-- The connection is lost; 2027 is what the library of MariaDB says instead of 2013.
local LOST = { [2006] = true, [2013] = true, [2027] = true }
local begun, writer, turn, statement = false, 0, 0, ""

local function now()
   local time = ffi.new("event_time")
   ffi.C.gettimeofday(time, nil)
   return tonumber(time.seconds) * 1000000 + tonumber(time.microseconds)
end

local function tell(...)
   io.stdout:write(string.format(...))
   io.stdout:flush()
end

local function record(part)
   con:query(string.format("INSERT INTO writes VALUES (%d, %d, %d)", writer, turn, part))
end

if keeps_ledger then
   function begin()
      statement = "BEGIN"
      begin_it()
      statement = "INSERT"
      record(0)
   end

   function commit()
      record(1)
      statement = "COMMIT"
      commit_it()
   end
end

local function run_recorded(thread)
   writer, turn = thread, turn + 1
   local done, failure = pcall(run, thread)
   if done then
      tell("DID %d %d\n", writer, turn)
      return
   end
   if type(failure) == "table" and failure.sql_errno then
      tell("NOT %d %d %s %d %s\n", writer, turn, statement, failure.sql_errno, failure.sql_errmsg:gsub("\n", " "))
      if LOST[failure.sql_errno] then
         -- By itself sysbench would end, or use a connection that its library has closed.
         close_statements()
         con:disconnect()
         con = drv:connect()
         prepare_statements()
      else
         -- sysbench would commit what a statement that has failed has left open.
         con:query("ROLLBACK")
      end
   end
   error(failure, 0)
end

function event(thread)
   local file = io.open(os.getenv("SWITCHOVER_STOP"))
   if file then
      file:close()
      return true
   end
   local from = now()
   if keeps_ledger then
      run_recorded(thread)
   else
      run(thread)
   end
   local to = now()
   if not begun then
      begun = true
      tell("BEGUN\n")
   end
   if to - from >= slow then
      tell("TOOK %.0f %.0f\n", from, to)
   end
end

-- It is done already.
sysbench.hooks.before_restart_event = nil

function sysbench.hooks.sql_error_ignorable(failure)
   if keeps_ledger and LOST[failure.sql_errno] then
      return true
   end
   tell("FAILED %s %s\n", failure.sql_errno, failure.sql_errmsg:gsub("\n", " "))
   return false
end
