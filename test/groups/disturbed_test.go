package groups

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestRapidGangs is kubernetes/kubernetes#136269, with gangs: many of them want the same
// devices at the same time. No device is allocated twice, which the end of each test
// checks, and as many gangs run as there are devices for.
func TestRapidGangs(t *testing.T) {
	harness.Long(t, "gangs come and go in rapid succession")
	t.Parallel()
	const gangs, podsPerGang, nodes, devices = 12, 4, 4, 7
	s := newSpace(t, "rapid", nodes, devices)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	var names []string
	for i := range gangs {
		names = append(names, fmt.Sprintf("gang-%02d", i))
		s.Create(group(names[i], podsPerGang))
	}
	for _, gang := range names {
		s.createMembers(gang, podsPerGang, builder.FromTemplate("one"))
	}
	const fits = nodes * devices / podsPerGang
	s.Eventually(fmt.Sprintf("run %d of %d gangs", fits, gangs), func(context.Context) error {
		if bound, allocated := s.Bound(), s.Allocated(); bound != fits*podsPerGang || allocated != bound {
			return fmt.Errorf("%d pods are bound, %d claims allocated", bound, allocated)
		}
		return nil
	})
	for _, gang := range names {
		bound := 0
		for i := range podsPerGang {
			if s.LivePod(fmt.Sprintf("%s-%d", gang, i)).Spec.NodeName != "" {
				bound++
			}
		}
		require.Contains(t, []int{0, podsPerGang}, bound, "gang %s runs as a whole or not at all", gang)
	}
	require.Zero(t, s.NothingLeaked())
}

// TestKilledWithinAGang: the scheduler is killed again and again while gangs are being
// bound. Each gang ends up whole, on the devices that were allocated first.
func TestKilledWithinAGang(t *testing.T) {
	harness.Long(t, "schedulers are killed at several moments of a gang")
	t.Parallel()
	const gangs, podsPerGang = 6, 8
	s := newOwnSpace(t, "killed", 2, gangs*(podsPerGang+1)/2+podsPerGang)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	// The limit of requests per second keeps it from being done before it is killed.
	scheduler := s.startScheduler(harness.SchedulerOptions{QPS: 40})
	var pods []string
	for i := range gangs {
		gang := fmt.Sprintf("gang-%d", i)
		s.Create(builder.Claim(gang, s.Want(1)).Obj(), group(gang, podsPerGang, builder.Uses(gang)...))
		before := s.Allocated()
		pods = append(pods, s.createMembers(gang, podsPerGang, append(builder.FromTemplate("one"), builder.Uses(gang)...))...)
		// From the first claim to the last binding: each time somewhere else.
		s.Eventually("allocate the first claims of a gang", func(context.Context) error {
			if allocated := s.Allocated(); allocated < before+i {
				return fmt.Errorf("%d claims are allocated, %d of them from before", allocated, before)
			}
			return nil
		})
		require.NoError(t, scheduler.Kill())
		t.Logf("killed with %d of %d pods bound, %d claims allocated", s.Bound(), len(pods), s.Allocated())
		require.NoError(t, scheduler.Restart(t.Context()))
	}
	s.Running(pods...)
	for i := range gangs {
		require.Equal(t, []string{"podgroups/gang-" + fmt.Sprint(i)}, s.consumers(fmt.Sprintf("gang-%d", i)))
	}
	require.Equal(t, 2*(gangs*(podsPerGang+1)/2+podsPerGang)-gangs*(podsPerGang+1), s.NothingLeaked())
}

// TestDeletedWithinAGang: pods, or the whole group, are deleted while the gang is being
// scheduled. What is left runs or waits, and nothing is held for those that are gone.
func TestDeletedWithinAGang(t *testing.T) {
	t.Parallel()
	const pods, devices = 6, 8
	for name, groupToo := range map[string]bool{"a pod": false, "all pods and the group": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for round := range 4 {
				s := newSpace(t, fmt.Sprintf("deleted-%t-%d", groupToo, round), 1, devices)
				s.Create(builder.Claim("one", s.Want(1)).Template(), builder.Claim("shared", s.Want(1)).Obj(),
					group("gang", pods-1, builder.Uses("shared")...))
				members := s.createMembers("gang", pods, append(builder.FromTemplate("one"), builder.Uses("shared")...))
				s.Eventually("allocate claims of the gang", func(context.Context) error {
					if s.Allocated() < round {
						return fmt.Errorf("%d are allocated", s.Allocated())
					}
					return nil
				})
				if !groupToo {
					s.DeletePod(members[round])
					s.Gone(members[round])
					s.Running(append(members[:round:round], members[round+1:]...)...)
					require.Equal(t, devices-pods, s.NothingLeaked())
					continue
				}
				s.deletePodGroup("gang")
				for _, pod := range members {
					s.DeletePod(pod)
				}
				for _, pod := range members {
					s.Gone(pod)
				}
				s.nothingAllocated("shared")
				require.Equal(t, devices, s.NothingLeaked())
			}
		})
	}
}
