package protocol

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

func podName(p uint8) string       { return "pod " + string('p'+rune(p)) }
func claimName(c uint8) string     { return "claim " + string('A'+rune(c)) }
func schedulerName(i uint8) string { return fmt.Sprintf("scheduler %d", i+1) }

// describe returns the text of a step.
func (m *model) describe(l label, to state) string {
	switch l.action {
	case doSee:
		return schedulerName(l.who) + ": the watch delivers the next write"
	case doRelist:
		return schedulerName(l.who) + ": the watch starts again with a list"
	case doListRest:
		return fmt.Sprintf("%s: the list brings %s", schedulerName(l.who), claimName(l.with))
	case doCrash:
		return fmt.Sprintf("%s: crashes and starts again%s", schedulerName(l.who), [...]string{
			"", ", its last write is still under way", ", its releasing is still under way",
			", its rolling back a reservation is still under way", ", a binding is still under way",
		}[l.with])
	case doUnpublish:
		return schedulerName(l.who) + ": hears that the pool is being published again"
	case doPublish:
		return schedulerName(l.who) + ": hears that the pool is complete"
	case doDelete:
		return podName(l.who) + " is deleted"
	case doRemoveDeleted:
		return "resource claim controller: removes deleted pods from " + claimName(l.who) + m.now(to, l.who)
	case doDeliverLate:
		return fmt.Sprintf("the late request for %s arrives", podName(l.who)) + m.now(to, m.pods[l.who].claim)
	default:
		return m.describePodStep(l, to)
	}
}

func (m *model) describePodStep(l label, to state) string {
	pod := m.pods[l.who]
	prefix := fmt.Sprintf("%s, %s: ", schedulerName(pod.scheduler), podName(l.who))
	now := m.now(to, pod.claim)
	switch l.action {
	case doPlan:
		return fmt.Sprintf("%schooses %s for %s", prefix, m.devices(l.with), claimName(pod.claim))
	case doWrite:
		if p := to.pods[l.who].phase; p == protocol.Idle || p == protocol.Release {
			return prefix + "cannot write, another write came first" + now
		}
		return prefix + "writes" + now
	case doCheck:
		return prefix + [...]string{
			"checks, nothing is in conflict", "checks, the allocation is gone", "checks, somebody was first", "checks, somebody may have been first",
		}[l.with]
	case doStopWaiting:
		return prefix + "waited long enough for the pool to be complete"
	case doPreSettle:
		return prefix + [...]string{"settles before the write", "drops the plan, a conflicting claim was allocated"}[l.with]
	case doNotice:
		return prefix + "notices that a conflicting claim was allocated"
	case doSettle:
		if protocol.Phase(l.with) == protocol.Bind {
			return prefix + "settles"
		}
		return prefix + "settles, and must not bind"
	case doRelease:
		return prefix + [...]string{"releases the claim", "leaves the claim alone, a binding may be under way"}[l.with] + now
	case doFail:
		return prefix + [...]string{"binding fails for another reason", "the answer to its write gets lost" + now}[l.with]
	case doBind:
		if protocol.Phase(l.with) == protocol.Bound {
			return prefix + "binds"
		}
		return prefix + "cannot bind, the pod is gone"
	}
	panic(fmt.Sprintf("step %d has no description", l.action))
}

// devices returns the text of a choice.
func (m *model) devices(c choice) string {
	if c == 0 {
		return "nothing"
	}
	return fmt.Sprint(map[string]uint8(m.choices[c-1]))
}

// now describes the server's state of a claim.
func (m *model) now(s state, claim uint8) string {
	c := s.claims[claim]
	text := fmt.Sprintf(" (%s has %s, reserved for", claimName(claim), m.devices(c.allocation))
	for p := range m.pods {
		if c.reserved&bit(uint8(p)) != 0 {
			text += " " + podName(uint8(p))
		}
	}
	if c.reserved == 0 {
		text += " nobody"
	}
	return text + ")"
}
