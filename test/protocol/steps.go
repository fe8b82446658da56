package protocol

// action is the kind of a step.
type action uint8

const (
	doPlan action = iota
	doWrite
	doCheck
	doPreSettle
	doNotice
	doSettle
	doRelease
	doFail
	doBind
	doSee
	doRelist
	doListRest
	doCrash
	doDelete
	doRemoveDeleted
	doDeliverLate
	doUnpublish
	doPublish
	doStopWaiting
)

// label identifies a step: its action, its pod, scheduler or claim, and its details.
type label struct {
	action action
	who    uint8
	with   uint8
}

// emitter takes a step; broken is not empty if the step itself breaks a property.
// It renumbers the state, so the caller must not go on with it.
type emitter func(l label, to *state, broken string)

// steps lists everything that may happen next: each scheduler can continue with each of its pods,
// each watch can deliver, and each fault can happen.
func (m *model) steps(from *state, emit emitter) {
	normal := func(l label, to *state, broken string) {
		m.normal(to)
		emit(l, to, broken)
	}
	for p := range m.pods {
		m.podSteps(from, uint8(p), normal)
	}
	for i := range m.schedulers {
		m.schedulerSteps(from, uint8(i), normal)
	}
	m.serverSteps(from, normal)
}
