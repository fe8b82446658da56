package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// ErrWentBack means that resourceVersions went back, which happens only when etcd was restored from a backup. The
// state of this process may then never have happened, and a watch that continues from a newer version shows nothing
// until the store reaches that version. The process must start over.
var ErrWentBack = errors.New("resourceVersions went back, as after etcd was restored from a backup; " +
	"what this process knows may not be so any more, and it has to be started again")

const (
	// lookInterval is the interval of looks in History.Run.
	lookInterval = time.Second
	// lookTimeout limits the time of one look.
	lookTimeout = 5 * time.Second
)

// History detects that the versions of the API server's store went back. It is safe for concurrent use.
type History struct {
	// Now returns the current version of the store. It must bypass caches, which may lag behind an earlier answer.
	Now func(context.Context) (string, error)

	// looking is held during a look, so that answers arrive in the order of requests.
	looking sync.Mutex

	mutex  sync.Mutex
	newest string
	// failed is set while it is unknown whether the versions went back.
	failed error
}

// Claims lists claims of all namespaces.
type Claims interface {
	List(context.Context, metav1.ListOptions) (*resourceapi.ResourceClaimList, error)
}

// NewHistory returns the History of the store of claims.
func NewHistory(claims Claims) *History {
	return &History{Now: func(ctx context.Context) (string, error) {
		list, err := claims.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return "", fmt.Errorf("list a claim to learn the version of the store: %w", err)
		}
		return list.ResourceVersion, nil
	}}
}

// Run looks regularly. It returns nil when the context ends, and ErrWentBack when versions went back.
func (h *History) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if err := h.Look(ctx); errors.Is(err, ErrWentBack) {
			return err
		} else if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("It is not known whether resourceVersions went back", "reason", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Look looks once. It also returns ErrWentBack if an earlier look has found it.
func (h *History) Look(ctx context.Context) error {
	h.looking.Lock()
	defer h.looking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	h.mutex.Lock()
	known := h.failed
	h.mutex.Unlock()
	if errors.Is(known, ErrWentBack) {
		return known
	}
	version, err := h.Now(ctx)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	switch {
	case errors.Is(h.failed, ErrWentBack): // Report was called meanwhile.
	case err != nil:
		h.failed = err
	case Newer(h.newest, version):
		h.failed = fmt.Errorf("the version of the store was %s, and is %s: %w", h.newest, version, ErrWentBack)
	default:
		h.failed = nil
		if AtLeast(version, version) { // Other versions cannot be compared.
			h.newest = version
		}
	}
	return h.failed
}

// Known returns nil if the latest look has shown that versions did not go back. If that look failed, for example
// because the server was down, Known looks again.
func (h *History) Known(ctx context.Context) error {
	h.mutex.Lock()
	failed := h.failed
	h.mutex.Unlock()
	if failed == nil || errors.Is(failed, ErrWentBack) {
		return failed
	}
	return h.Look(ctx)
}

// Report records an ErrWentBack that another component has found, because later looks may not notice it.
func (h *History) Report(err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !errors.Is(h.failed, ErrWentBack) {
		h.failed = err
	}
}
