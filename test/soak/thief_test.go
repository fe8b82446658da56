package soak

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	thiefPrefix = "thief-"
	thiefPause  = 200 * time.Millisecond
)

// thief copies allocations of others into claims of its own. All of that has to be denied, but for what
// its holder has given back at that moment.
type thief struct {
	space           *harness.Space
	denied, allowed atomic.Int64
}

func (t *thief) String() string {
	return fmt.Sprintf("what others had was denied %d times to somebody who copied it, and %d times free by then", t.denied.Load(), t.allowed.Load())
}

// run takes what others have until the context is done.
func (t *thief) run(ctx context.Context) error {
	for i := 0; ctx.Err() == nil; i++ {
		if err := t.steal(t.space.T.Context(), fmt.Sprintf("%s%d", thiefPrefix, i)); err != nil {
			return err
		}
		pause(ctx, thiefPause)
	}
	return nil
}

// steal makes a claim with the allocation of another one, and deletes it again.
func (t *thief) steal(ctx context.Context, name string) error {
	held, err := t.victim()
	if held == nil || err != nil {
		return err
	}
	claims := cluster.Client.ResourceV1().ResourceClaims(t.space.Name)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *held.Spec.DeepCopy()}
	claim, err = claims.Create(ctx, builder.Unsaved(t.space.Name, claim), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status.Allocation = held.Status.Allocation.DeepCopy()
	switch _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); {
	case err == nil:
		t.allowed.Add(1)
	case apierrors.IsForbidden(err):
		t.denied.Add(1)
	default:
		return fmt.Errorf("write the allocation of %s into %s: %w", held.Name, name, err)
	}
	return claims.Delete(ctx, name, metav1.DeleteOptions{})
}

// victim is a claim of somebody else that is allocated, nil if there is none.
func (t *thief) victim() (*resourceapi.ResourceClaim, error) {
	claims, err := cluster.Informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(t.space.Name).List(labels.Everything())
	for _, claim := range claims {
		if claim.Status.Allocation != nil && !strings.HasPrefix(claim.Name, thiefPrefix) {
			return claim, nil
		}
	}
	return nil, err
}

var _ intruder = (*thief)(nil)
