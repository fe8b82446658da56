package main

import (
	"context"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
)

// gcPercent is by how many percent the heap may grow between two collections.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// (Not in parallel: there is one collector.)
func TestCollectLess(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := gcPercent()
	filled := make(chan struct{})
	collectLess(func() { <-filled })
	require.EqualValues(t, fillingPercent, gcPercent())
	close(filled)
	require.Eventually(t, func() bool { return gcPercent() == before }, time.Minute, time.Millisecond, "as before, once informers are filled")
}

func TestCollectAsTheUserWishes(t *testing.T) {
	before := gcPercent()
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(name, "300")
			collectLess(func() { t.Error("there is nothing to wait for") })
			require.Equal(t, before, gcPercent())
		})
	}
}

// TestWaitFilled: the wait ends when all informers are filled, and not before.
func TestWaitFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := (&schedulerconfig.Config{InformerFactory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}).Complete()
		defer c.InformerFactory.Shutdown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := false
		go func() {
			waitFilled(ctx, &c)
			over = true
		}()
		synctest.Wait()
		require.False(t, over)
		c.InformerFactory.StartWithContext(ctx)
		synctest.Wait()
		require.True(t, over)
	})
}
