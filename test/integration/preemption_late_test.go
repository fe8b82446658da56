package integration

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestVictimsClaimIsReleasedLate: the claim of a victim is released long after the victim is gone, because the API server refuses
// that to everybody. Nobody else is evicted meanwhile, nobody else gets the device, and then the preemptor does.
func TestVictimsClaimIsReleasedLate(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-released-late", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(), builder.Claim("victim", s.Want(1)).Obj(),
		s.Pod("bystander", builder.FromTemplate("device")))
	s.Running("bystander")
	time.Sleep(time.Second) // By kube-scheduler's own order, the older one is more important.
	s.Create(s.Pod("victim", builder.Uses("victim")))
	s.Running("victim")
	allow := s.Refuse("resourceclaims/status", "resource.k8s.io", admissionregistrationv1.Update,
		"!has(oldObject.status.reservedFor) || has(object.status.reservedFor) && size(object.status.reservedFor) >= size(oldObject.status.reservedFor)")

	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("device")), important))
	nominated(s, "preemptor")
	s.Gone("victim")
	s.Create(s.Pod("late", builder.FromTemplate("device")))
	s.Waiting("late", "held by other claims")
	s.StaysBound(1) // The bystander, and nobody else.
	allow()
	s.Running("preemptor", "bystander")
	s.Waiting("late", "held by other claims")
}
