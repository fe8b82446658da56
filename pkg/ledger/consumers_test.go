package ledger_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"unique"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// reservedFor makes consumers of pods by UID.
func reservedFor(pods ...types.UID) (consumers []resourceapi.ResourceClaimConsumerReference) {
	for _, uid := range pods {
		consumers = append(consumers, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: string(uid), UID: uid})
	}
	return consumers
}

// usesBy lists "claim" by name that a consumer uses, sorted.
func usesBy(l *ledger.Ledger, consumer types.UID) []string {
	names := []string{}
	for _, use := range l.UsesBy(consumer) {
		names = append(names, use.Claim.Name)
	}
	slices.Sort(names)
	return names
}

// TestUsesByAgainstModel has claims reserved, deallocated, deleted, put in flight and renamed at random, and
// compares who uses what with what follows from going through all of it.
func TestUsesByAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewSource(11))
	pods := []types.UID{"a", "b", "c", "d"}
	for range 300 {
		l := ledger.New()
		committed := map[string][]types.UID{} // claim to consumers
		inFlight := map[string][]types.UID{}
		for version := range 60 {
			name := fmt.Sprintf("claim-%d", rng.Intn(4))
			claim := versioned(b.Claim(name).Allocated("pool", "gpu-"+name), version+1)
			pod := pods[rng.Intn(len(pods))]
			switch rng.Intn(6) {
			case 0:
				refresh(l, name, nil)
				delete(committed, name)
			case 1:
				claim.Status.Allocation = nil
				refresh(l, name, claim)
				committed[name] = nil
			case 2:
				consumers := slices.Clone(pods[rng.Intn(len(pods)):])
				rng.Shuffle(len(consumers), func(i, j int) { consumers[i], consumers[j] = consumers[j], consumers[i] })
				claim.Status.ReservedFor = reservedFor(consumers...)
				refresh(l, name, claim)
				committed[name] = consumers
			case 3:
				if l.AddInFlight(ledger.RefTo(claim), pod, claim.Status.Allocation) == nil && !slices.Contains(inFlight[name], pod) {
					inFlight[name] = append(inFlight[name], pod)
				}
			case 4:
				l.RemoveInFlight(claim.UID, pod)
				inFlight[name] = slices.DeleteFunc(inFlight[name], func(user types.UID) bool { return user == pod })
			}
			for _, pod := range pods {
				want := []string{}
				for i := range 4 {
					name := fmt.Sprintf("claim-%d", i)
					if slices.Contains(committed[name], pod) || slices.Contains(inFlight[name], pod) {
						want = append(want, name)
					}
				}
				require.Equal(t, want, usesBy(l, pod))
			}
		}
	}
}

func TestRenameKeepsUsers(t *testing.T) {
	l := ledger.New()
	planned, made := b.Claim("planned").Allocated("pool", "gpu-0"), b.Claim("made").Obj()
	require.NoError(t, l.AddInFlight(ledger.RefTo(planned), "pod", planned.Status.Allocation))
	l.Rename(planned.UID, ledger.RefTo(made))
	require.Equal(t, []string{"made"}, usesBy(l, "pod"))
	l.RemoveInFlight(made.UID, "pod")
	require.Empty(t, usesBy(l, "pod"))
}

// TestWhatIf takes claims out and puts others in, also where a device is held by both.
func TestWhatIf(t *testing.T) {
	l := ledger.New()
	refresh(l, "x", b.Claim("x").Allocated("a", "gpu-0"))
	refresh(l, "y", b.Claim("y").Allocated("a", "gpu-0", "gpu-1"))
	refresh(l, "z", b.Claim("z").Allocated("b", "gpu-2"))
	planned := b.Claim("p").Allocated("a", "gpu-1", "gpu-3")
	hold := ledger.Use{Claim: ledger.RefTo(planned), Allocation: planned.Status.Allocation}
	view := ledger.WhatIf(l, []ledger.Use{l.UseOf("uid-x"), l.UseOf("uid-z"), l.UseOf("uid-unknown")}, []ledger.Use{hold})
	require.Equal(t, []string{"gpu-0: y", "gpu-1: y p", "gpu-3: p"}, holders(view, "a"))
	require.Empty(t, holders(view, "b"))
	require.Equal(t, []string{"gpu-0: x y", "gpu-1: y"}, holders(l, "a"), "the world stays as it is")
}

// TestConsumerChanges: whenever the consumers of a claim change, those of its pools are counted to have changed, or what is in use of the
// pool is another PoolUsage; what leaves them as they are is not counted.
func TestConsumerChanges(t *testing.T) {
	l, version := ledger.New(), 0
	key := unique.Make(inventory.PoolID{Driver: b.Driver, Name: "pool"})
	claim := func(consumers ...types.UID) *resourceapi.ResourceClaim {
		version++
		claim := versioned(b.Claim("claim").Allocated("pool", "gpu"), version)
		claim.Status.ReservedFor = reservedFor(consumers...)
		return claim
	}
	refresh(l, "claim", claim("a"))
	uid := claim().UID
	steps := []struct {
		name    string
		do      func()
		changes bool
	}{
		{"another consumer", func() { refresh(l, "claim", claim("a", "b")) }, true},
		{"the same ones", func() { refresh(l, "claim", claim("a", "b")) }, false},
		{"another one instead", func() { refresh(l, "claim", claim("a", "c")) }, true},
		{"one less", func() { refresh(l, "claim", claim("a")) }, true},
		{"an attempt begins", func() { require.NoError(t, l.AddInFlight(ledger.RefTo(claim()), "d", claim().Status.Allocation)) }, true},
		{"once more", func() { require.NoError(t, l.AddInFlight(ledger.RefTo(claim()), "d", claim().Status.Allocation)) }, false},
		{"another attempt", func() { require.NoError(t, l.AddInFlight(ledger.RefTo(claim()), "e", claim().Status.Allocation)) }, true},
		{"one attempt ends", func() { l.RemoveInFlight(uid, "d") }, true},
		{"it ended before", func() { l.RemoveInFlight(uid, "d") }, false},
		{"the other one ends", func() { l.RemoveInFlight(uid, "e") }, true},
		{"a consumer changes", func() { l.ConsumerChanged("a") }, true},
		{"somebody else changes", func() { l.ConsumerChanged("b") }, false},
	}
	for _, step := range steps {
		before := l.ConsumerChanges(key).Load()
		step.do()
		require.Equal(t, step.changes, before != l.ConsumerChanges(key).Load(), step.name)
	}

	usage := l.Pool(key.Value())
	moved := claim("f")
	moved.Status.Allocation = b.Claim("claim").Allocated("pool", "other").Status.Allocation
	refresh(l, "claim", moved)
	require.NotSame(t, usage, l.Pool(key.Value()), "another device")
	usage = l.Pool(key.Value())
	released := claim()
	released.Status.Allocation = nil
	refresh(l, "claim", released)
	require.NotSame(t, usage, l.Pool(key.Value()), "none")
	refresh(l, "claim", claim("a"))
	require.NotSame(t, usage, l.Pool(key.Value()), "a device again")
}
