//! The fields of each response, and whether they are optional.

pub(super) const EXECUTE: &str = "type:text success:flag exitCode:int stdout:text stderr:text command:text duration:number \
     timestamp:time executionId:text end:object usage:object cursor:int args?:list sessionId?:text \
     invalidUtf8?:flag encoding?:text truncated?:object leftovers?:list leftoverCount?:int \
     sessionRestarted?:flag restoredStateAgeMs?:number restoredFrom?:text shellEnded?:flag replaced?:object";
pub(super) const END: &str = "reason:text signal?:int";
pub(super) const USAGE: &str = "userMs:number systemMs:number wallMs:number maxRssBytes:int";
pub(super) const TRUNCATED: &str =
    "stdoutBytes:int stdoutAfterBytes:int stderrBytes:int stderrAfterBytes:int";
pub(super) const STARTED: &str = "type:text success:flag processId:text executionId:text pid?:int command:text replaced?:object timestamp:time";
pub(super) const PROCESS: &str = "id:text pid?:int command:text status:text startTime:time endTime?:time exitCode?:int \
     end?:object sessionId?:text background:flag waiting?:text usage?:object leftovers?:list leftoverCount?:int \
     metrics?:object";
pub(super) const ONE_PROCESS: &str = "success:flag process:object timestamp:time";
pub(super) const PROCESSES: &str = "success:flag processes:list timestamp:time";
pub(super) const KILLED: &str = "success:flag processId:text killed:list survivors:list timestamp:time";
pub(super) const KILLED_PROCESS: &str = "pid:int command:text signal:int";
pub(super) const CLEANED: &str = "success:flag cleanedCount:int timestamp:time";
pub(super) const DONE: &str = "success:flag timestamp:time";
pub(super) const STDIN: &str = "success:flag written:int timestamp:time";
pub(super) const LOGS: &str = "success:flag processId:text stdout:text stderr:text cursor:int timestamp:time \
     invalidUtf8?:flag encoding?:text truncated?:object gap?:object";
pub(super) const SESSION_CREATED: &str = "success:flag data:object timestamp:time id?:text message?:text";
pub(super) const SESSION_MADE: &str = "id:text cwd:text createdAt:time";
pub(super) const SESSION: &str =
    "id:text name?:text cwd?:text createdAt:time busy:flag queued:int restarts:int";
pub(super) const SESSIONS: &str = "success:flag data:list sessions:list timestamp:time";
pub(super) const ONE_SESSION: &str = "success:flag session:object timestamp:time";
pub(super) const SESSION_ENDED: &str =
    "success:flag sessionId:text killed:list survivors:list timestamp:time";
pub(super) const TERMINAL_CREATED: &str =
    "success:flag id:text executionId:text pid:int cols:int rows:int created:flag timestamp:time";
pub(super) const TERMINAL: &str = "id:text executionId:text pid?:int command:text cols:int rows:int title:text status:text exitCode?:int \
     end?:object sessionId?:text viewers:int createdAt:time lastActivity:time";
pub(super) const ONE_TERMINAL: &str = "success:flag terminal:object timestamp:time";
pub(super) const TERMINALS: &str = "success:flag terminals:list timestamp:time";
pub(super) const TERMINAL_DELETED: &str = "success:flag id:text killed:list survivors:list timestamp:time";
pub(super) const SCREEN: &str = "success:flag text:text cells?:list cols:int rows:int cursor:object title:text \
     alternate:flag scrollbackLines:int source:text outputDropped?:flag outputCursor:int timestamp:time";
pub(super) const PORTS: &str = "success:flag ports:list timestamp:time";
pub(super) const PORT: &str =
    "port:int address:text protocol:text pid?:int executionId?:text processId?:text exposed?:text";
pub(super) const EXPOSED: &str = "success:flag url:text port:int name?:text token:text processId?:text status:text \
     exposedAt:time timestamp:time";
pub(super) const EXPOSED_PORT: &str =
    "url:text port:int name?:text token:text processId?:text status:text exposedAt:time";
pub(super) const EXPOSED_PORTS: &str = "success:flag ports:list count:int timestamp:time";
pub(super) const UNEXPOSED: &str = "success:flag port:int timestamp:time";
pub(super) const SERVICE_STARTED: &str = "success:flag serviceId:text processId:text executionId:text pid?:int command:text \
     health:object timestamp:time";
pub(super) const SERVICE: &str = "id:text name?:text command:text state:text executionId?:text pid?:int sessionId?:text \
     createdAt:time startedAt?:time restarts:int nextRestart?:time health:object healthCheck?:object restart:object \
     executions:list";
pub(super) const SERVICE_EXECUTION: &str =
    "executionId:text startTime:time endTime:time exitCode?:int end?:object error?:text";
pub(super) const SERVICE_HEALTH: &str =
    "success:flag serviceId:text status:text lastCheck?:time error?:text timestamp:time";
pub(super) const SERVICE_STOPPED: &str =
    "success:flag serviceId:text killed:list survivors:list timestamp:time";
pub(super) const METRICS: &str = "processes:int threads:int openFiles:int userMs:number systemMs:number residentBytes:int \
     readBytes:int writtenBytes:int unreadable?:int";
