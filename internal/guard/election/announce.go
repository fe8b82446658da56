package election

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

const (
	// LeaseName is the default name of the Lease.
	LeaseName = "quartermaster-guard"
	// DecidesAnnotation of the Lease is the identity of the guard that decides. If it is not the holder's, no guard
	// decides.
	DecidesAnnotation = "quartermaster-dra.github.io/decides"
	// ModeAnnotation of the Lease is the mode of the guard that decides, "Enforce" or "Warn".
	ModeAnnotation = "quartermaster-dra.github.io/mode"
	// OutlastedAnnotation of the Lease is its UID, as soon as no process can believe that it holds an earlier Lease
	// of that name.
	OutlastedAnnotation = "quartermaster-dra.github.io/outlasted"
)

// announcer writes to the Lease, at each renewal, whether its holder decides, and passes each Lease that it sees to
// age.
type announcer struct {
	coordinationclient.LeasesGetter
	identity, mode string
	guard          Guard
	age            *age
}

func (a *announcer) Leases(namespace string) coordinationclient.LeaseInterface {
	return &announcedLeases{a.LeasesGetter.Leases(namespace), a}
}

type announcedLeases struct {
	coordinationclient.LeaseInterface
	announcer *announcer
}

func (l *announcedLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.seen(l.LeaseInterface.Get(ctx, name, o))
}

func (l *announcedLeases) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.seen(l.LeaseInterface.Create(ctx, l.announcer.announce(lease), o))
}

func (l *announcedLeases) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.seen(l.LeaseInterface.Update(ctx, l.announcer.announce(lease), o))
}

// seen passes the server's answer to age.
func (l *announcedLeases) seen(lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil {
		l.announcer.age.see(lease)
	}
	return lease, err
}

func (a *announcer) announce(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, ModeAnnotation, a.mode)
	if ptr.Deref(lease.Spec.HolderIdentity, "") == a.identity && a.guard.Decides() {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, DecidesAnnotation, a.identity)
	} else {
		delete(lease.Annotations, DecidesAnnotation)
	}
	if a.age.outlasted(lease.UID) {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, OutlastedAnnotation, string(lease.UID))
	}
	return lease
}
