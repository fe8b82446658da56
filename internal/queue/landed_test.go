package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNothingNewForThoseRejectedBefore: what was in flight only after a pod was rejected, and is free again, does not help it.
func TestNothingNewForThoseRejectedBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rejected := func(pod *v1.Pod) *Pod {
			entry := Apart(pod)
			entry.begin(pod)
			entry.reject(time.Now())
			return entry
		}
		by := builder.Pod("by")
		before := rejected(builder.Pod("before"))
		time.Sleep(time.Second)
		since := time.Now()
		sameTime := rejected(builder.Pod("same-time"))
		time.Sleep(time.Second)
		meanwhile := rejected(builder.Pod("meanwhile"))
		mate := rejected(builder.Pod("mate", builder.InGroup("g")))
		again := rejected(builder.Pod("again"))
		again.begin(again.Latest())

		require.True(t, notHelped(before, by, since))
		require.False(t, notHelped(sameTime, by, since), "it may have been rejected after that")
		require.False(t, notHelped(meanwhile, by, since))
		require.False(t, notHelped(again, by, since.Add(time.Hour)), "it is being tried")
		require.False(t, notHelped(before, by, time.Time{}), "nobody knows since when")
		require.False(t, notHelped(before, nil, since), "the guard does not know the pod")
		require.False(t, notHelped(mate, by, since))
		require.True(t, notHelped(mate, builder.Pod("other-mate", builder.InGroup("g")), since), "they are tried together")
		before.activated(before.attemptsBegun())
		require.False(t, notHelped(before, by, since), "another plugin may keep it from being tried")
	})
}
