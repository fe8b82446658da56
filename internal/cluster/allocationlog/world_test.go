package allocationlog

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// start is the time at which all tests begin.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// world drives an Log as the reflector does.
type world struct {
	*Log
	t        *testing.T
	clock    *testingclock.FakePassiveClock
	store    *inventory.Store
	reported []Conflict
}

// newWorld returns an Log that has seen an empty list in version 1. The pools are those
// of the slices.
func newWorld(t *testing.T, slices ...*b.SliceBuilder) *world {
	w := newUnsyncedWorld(t, slices...)
	w.relist(1)
	return w
}

func newUnsyncedWorld(t *testing.T, slices ...*b.SliceBuilder) *world {
	store := inventory.NewStore(inventory.Options{PartitionableDevices: true, CompatibilityGroups: true})
	pools := func(id inventory.PoolID) *inventory.NodePool {
		if pool := store.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	clock := testingclock.NewFakePassiveClock(start)
	w := &world{Log: New(nil, pools, clock), t: t, clock: clock, store: store}
	store.Published = w.PoolPublished
	w.publish(slices...)
	w.OnConflict(func(c Conflict) { w.reported = append(w.reported, c) })
	return w
}

// publish delivers slices, and withdraw their end.
func (w *world) publish(slices ...*b.SliceBuilder) {
	for _, s := range slices {
		slice := s.Obj()
		w.store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
	}
}

func (w *world) withdraw(names ...string) {
	for _, name := range names {
		w.store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return nil })
	}
}

// own is the backlog of the namespace that all claims are in.
func (w *world) own() *backlog { return w.backlog.in(b.Namespace, w.clock.Now()) }

// write delivers the event of a write.
func (w *world) write(version uint64, claim *resourceapi.ResourceClaim) {
	claim = at(version, claim)
	require.NoError(w.t, feed{w.Log}.Update(claim))
	feed{w.Log}.UpdateResourceVersion(claim.ResourceVersion)
}

// remove delivers the deletion of a claim.
func (w *world) remove(version uint64, claim *resourceapi.ResourceClaim) {
	claim = at(version, claim)
	require.NoError(w.t, feed{w.Log}.Delete(claim))
	feed{w.Log}.UpdateResourceVersion(claim.ResourceVersion)
}

// relist delivers a list.
func (w *world) relist(version uint64, claims ...*resourceapi.ResourceClaim) {
	objects := make([]any, len(claims))
	for i, claim := range claims {
		objects[i] = claim.DeepCopy()
	}
	require.NoError(w.t, feed{w.Log}.Replace(objects, strconv.FormatUint(version, 10)))
}

// requireVerdicts compares what all claims are told, in the form of verdict.
func (w *world) requireVerdicts(want map[string]string) {
	w.t.Helper()
	got := make(map[string]string, len(want))
	for name := range want {
		got[name] = verdict(w.lost(uidOf(name)))
	}
	require.Equal(w.t, want, got)
}

// lost returns why a claim has to yield, nil if it need not.
func (o *Log) lost(claim types.UID) *Conflict {
	if conflicts := o.Conflicts(claim); len(conflicts) > 0 && conflicts[0].Lost {
		return &conflicts[0]
	}
	return nil
}

// verdict is "stays", or "RELATION NAME: CAUSE DEVICE RESOURCE".
func verdict(c *Conflict) string {
	if c == nil {
		return "stays"
	}
	return describe(*c)
}

func describe(c Conflict) string {
	cause := [...]string{"held", "held and shared", "capacity", "counter", "incompatible"}[c.Cause]
	text := fmt.Sprintf("%s %s: %s %s", c.Relation, c.Other.Name, cause, c.Device)
	if c.Resource != "" {
		text += " " + c.Resource
	}
	return text
}

func describeAll(conflicts []Conflict) []string {
	texts := []string{}
	for _, c := range conflicts {
		texts = append(texts, describe(c))
	}
	return texts
}

func uidOf(name string) types.UID { return b.Claim(name).Obj().UID }

// free returns a claim without allocation.
func free(name string) *resourceapi.ResourceClaim { return b.Claim(name).Obj() }

// ours returns a claim with devices of pool "a", written by an instance of this scheduler.
func ours(name string, devices ...string) *resourceapi.ResourceClaim {
	return by(write.FieldManager, b.Claim(name).Allocated("a", devices...))
}

// foreign is like ours, written by another scheduler.
func foreign(name string, devices ...string) *resourceapi.ResourceClaim {
	return by("kube-scheduler", b.Claim(name).Allocated("a", devices...))
}

// sharing has a share of a device of pool "a". The capacity is "memory".
func sharing(name, device, id, memory string) *resourceapi.ResourceClaim {
	claim := ours(name, device)
	result := &claim.Status.Allocation.Devices.Results[0]
	result.ShareID = ptr.To(types.UID(id))
	if memory != "" {
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	}
	return claim
}

// by records who wrote the allocation.
func by(manager string, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.ManagedFields = []metav1.ManagedFieldsEntry{managed(manager, "status", `{"f:status":{"f:allocation":{".":{},"f:devices":{"f:results":{}}},"f:reservedFor":{}}}`)}
	return claim
}

func managed(manager, subresource, fields string) metav1.ManagedFieldsEntry {
	recorded := metav1.NewTime(start.Add(-time.Hour))
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Time: &recorded,
	}
}

// at returns the claim in another version.
func at(version uint64, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	claim.ResourceVersion = strconv.FormatUint(version, 10)
	return claim
}
