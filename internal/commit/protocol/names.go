package protocol

// String returns the phase's name in docs/design/commit-protocol.md.
func (p Phase) String() string {
	return [...]string{
		Idle: "idle", Planned: "planned", PreWriteSettle: "settle before the write", Write: "write", See: "see", Check: "check",
		Settle: "settle", Ready: "get ready", Bind: "bind", Bound: "bound", Yield: "yield", Failed: "failed", Cancelled: "cancelled",
		Left: "left", Release: "release",
	}[p]
}

func (p ClaimPhase) String() string {
	return [...]string{
		Untouched: "untouched", Sent: "sent", Confirmed: "confirmed", Asking: "asking whether a bound pod needs it",
		FindingOut: "finding out what was written", Releasing: "releasing",
	}[p]
}

func (t Takes) String() string {
	return [...]string{Reservation: "reservation", Allocation: "allocation", WholeClaim: "claim"}[t]
}

func (e EventKind) String() string {
	return [...]string{
		NoEvent: "nothing", PutInFlight: "put in flight", Started: "started", Settled: "settled", Written: "written", Seen: "seen",
		Checked: "checked", GotReady: "got ready", Yielded: "yielded", PodBound: "pod bound", ProcessEnds: "process ends",
		Failure: "failure", Unreserved: "unreserved",
	}[e]
}

func (e ClaimEvent) String() string {
	return [...]string{InUse: "in use", NotInUse: "not in use", Done: "done", NotDone: "not done"}[e]
}

func (a ActionKind) String() string {
	return [...]string{
		NoAction: "nothing", AwaitOthers: "await others", WriteClaim: "write", AwaitWatch: "await the watch", CheckOrder: "check",
		AwaitLateWrites: "await late writes of others", AwaitDevices: "await devices", BindPod: "bind the pod", TellConflict: "tell the conflict",
		YieldClaim: "yield", EndInFlight: "end in flight", ReleaseClaim: "release", LeaveGroup: "leave group", StayInGroup: "stay in group",
		FindOut: "find out what was written", RollBackReservation: "roll back the reservation",
		RollBackAllocation: "roll back the reservation, and the allocation unless others have reserved it",
		DeleteClaim:        "delete the claim", TryAgain: "try again later",
	}[a]
}
