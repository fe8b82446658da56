package restarts

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// progress counts what the scheduler has written in a space, as a watch sees it: the
// finalizers of claims, their reservations (the first of a claim comes with its
// allocation) and the bindings of pods. Each counts once, also if it is undone and
// done again.
type progress struct {
	space string

	mutex sync.Mutex
	seen  map[string]bool
	// more is closed at the next write that counts.
	more chan struct{}
}

// follow counts until the end of the test. What was written before is counted already.
func follow(s *harness.Space) *progress {
	s.T.Helper()
	p := &progress{space: s.Name, seen: map[string]bool{}, more: make(chan struct{})}
	pods := s.Cluster.Informers.Core().V1().Pods().Informer()
	claims := s.Cluster.Informers.Resource().V1().ResourceClaims().Informer()
	for _, informer := range []cache.SharedIndexInformer{pods, claims} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    p.saw,
			UpdateFunc: func(_, obj any) { p.saw(obj) },
		})
		require.NoError(s.T, err)
		s.T.Cleanup(func() { require.NoError(s.T, informer.RemoveEventHandler(registration)) })
		require.True(s.T, cache.WaitForCacheSync(s.T.Context().Done(), registration.HasSynced), "what was written before has to be counted")
	}
	return p
}

func (p *progress) saw(obj any) {
	switch object := obj.(type) {
	case *corev1.Pod:
		if object.Namespace == p.space && object.Spec.NodeName != "" {
			p.count("pod " + string(object.UID))
		}
	case *resourceapi.ResourceClaim:
		if object.Namespace != p.space {
			return
		}
		claim := "claim " + string(object.UID)
		if slices.Contains(object.Finalizers, resourceapi.Finalizer) {
			p.count(claim)
		}
		for _, consumer := range object.Status.ReservedFor {
			p.count(claim + " for " + string(consumer.UID))
		}
	}
}

func (p *progress) count(write string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.seen[write] {
		p.seen[write] = true
		close(p.more)
		p.more = make(chan struct{})
	}
}

// now is the number of writes so far, and a channel that is closed when there are more.
func (p *progress) now() (int, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.seen), p.more
}

// reach waits until there are so many writes. It does not poll, so that what is done
// then happens in the middle of things.
func (p *progress) reach(ctx context.Context, writes int) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	for {
		count, more := p.now()
		if count >= writes {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("wait for write %d of the scheduler: there are %d after %s", writes, count, harness.Patience)
		}
	}
}

// mustReach is reach for tests.
func (p *progress) mustReach(s *harness.Space, writes int) {
	s.T.Helper()
	if err := p.reach(s.T.Context(), writes); err != nil {
		require.FailNow(s.T, err.Error())
	}
}
