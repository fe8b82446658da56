package write

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// oneWaits makes the second call while the first one is at its first request.
func oneWaits(t *testing.T, w *Writer, client *fake.Clientset, uid types.UID, first, second func()) {
	t.Helper()
	inRequest, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		once.Do(func() {
			close(inRequest)
			<-goOn
		})
		return false, nil, nil
	})
	var wg sync.WaitGroup
	wg.Go(first)
	<-inRequest
	wg.Go(second)
	awaitUsers(t, &w.busy, uid, 2)
	close(goOn)
	wg.Wait()
}

// A call that had to wait begins with what the one before it has left. That is the base
// of a first write and nothing more: others write as well.
func TestNextCallDoesNotTrustWhatWasLeft(t *testing.T) {
	t.Parallel()
	old := newClaim(allocated("gpu-0"))
	bind := func(pod string) func(*Writer) error {
		return func(w *Writer) error {
			_, err := w.Bind(context.Background(), old, nil, consumer(pod))
			return err
		}
	}
	unreserve := func(pod string) func(*Writer) error {
		return func(w *Writer) error {
			_, err := w.Unreserve(context.Background(), old, neverBound(consumer(pod).UID))
			return err
		}
	}
	deallocate := func(w *Writer) error {
		_, err := w.Deallocate(context.Background(), old, neverBound(""))
		return err
	}
	for name, tc := range map[string]struct {
		faults        []fault
		first, second func(*Writer) error
		requests      string
		secondErr     error
		want          *resourceapi.ResourceClaim
	}{
		"nobody interferes": {
			first: bind("one"), second: bind("two"),
			requests: "update status, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("one", "two")),
		},
		"somebody writes in between": {
			faults: []fault{{on: "update status"}, {on: "update status", before: changed(reservedFor("other"))}},
			first:  bind("one"), second: bind("two"),
			requests: "update status, update status, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("one", "other", "two")),
		},
		"what was left says that it is done: it is fenced": {
			first: bind("one"), second: bind("one"),
			requests: "update status, update",
			want:     newClaim(allocated("gpu-0"), reservedFor("one")),
		},
		"what was left says that it is done, but it was undone": {
			faults: []fault{{on: "update", before: changed(func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = nil })}},
			first:  bind("one"), second: bind("one"),
			requests: "update status, update, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("one")),
		},
		"what was left says that there is nothing to undo, but there is": {
			faults: []fault{{on: "get", before: changed(reservedFor("two"))}},
			first:  bind("one"), second: unreserve("two"),
			requests: "update status, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("one")),
		},
		"what was left is not allocated, but it is again": {
			faults: []fault{{on: "get", before: changed(func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation = newAllocation("gpu-0") })}},
			first:  deallocate, second: bind("two"),
			requests: "update status, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("two")),
		},
		"what was left is not allocated, and that is so": {
			first: deallocate, second: bind("two"),
			requests:  "update status, get",
			secondErr: ErrDeallocated,
			want:      newClaim(protected),
		},
		"the first call fails": {
			faults: always(maxTransients+1, fault{on: "update status", err: transientErrors["service unavailable"]}),
			first: func(w *Writer) error {
				if err := bind("one")(w); err == nil {
					t.Error("the server should not have accepted that")
				}
				return nil
			},
			second:   bind("two"),
			requests: strings.Repeat("update status, get, ", maxTransients+1) + "update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("two")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := startServer(t, old, tc.faults...)
			w, _ := newTestWriter(client)
			var firstErr, secondErr error
			oneWaits(t, w, client, old.UID, func() { firstErr = tc.first(w) }, func() { secondErr = tc.second(w) })
			require.NoError(t, firstErr)
			require.ErrorIs(t, secondErr, tc.secondErr)
			require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
			s.claim.ResourceVersion, s.claim.Annotations = tc.want.ResourceVersion, nil
			require.Empty(t, cmp.Diff(tc.want, s.claim))
			s.requireVersioned(t)
		})
	}
}

// The returned claim belongs to the caller, also while the next call uses that state.
func TestNextCallDoesNotSeeWhatTheCallerDoes(t *testing.T) {
	t.Parallel()
	old := newClaim(allocated("gpu-0"))
	s, client := startServer(t, old)
	w, _ := newTestWriter(client)
	oneWaits(t, w, client, old.UID, func() {
		claim, err := w.Bind(context.Background(), old, nil, consumer("one"))
		if err != nil {
			t.Error(err)
			return
		}
		claim.Status.ReservedFor[0] = consumer("nobody")
	}, func() {
		if _, err := w.Bind(context.Background(), old, nil, consumer("two")); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, newClaim(reservedFor("one", "two")).Status.ReservedFor, s.claim.Status.ReservedFor)
}
