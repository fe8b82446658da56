package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/kube/nodeallocatable"
)

// gangAccount implements devices.Account for a pod of a gang that is planned.
type gangAccount struct {
	*nodeallocatable.Accountant
	account *nodeallocatable.Account
	pl      *Quartermaster
	ctx     context.Context
	// given is the number of the pod's open claims before that for extended resources. unusable is why no node suits it.
	given    int
	unusable *fwk.Status
}

// accountsOf returns the accounts of pods, for one plan.
func (pl *Quartermaster) accountsOf(ctx context.Context) func(*v1.Pod, []*podClaim) devices.Account {
	return func(pod *v1.Pod, all []*podClaim) devices.Account {
		a := &gangAccount{Accountant: pl.accountant, pl: pl, ctx: ctx}
		a.account, a.given, a.unusable = pl.accountOf(ctx, pod, all)
		return a
	}
}

// TakesAlready implements devices.Account.
func (a *gangAccount) TakesAlready() bool { return a.unusable != nil || a.account.TakesAlready() }

// DecidedForOnePod implements devices.Account.
func (a *gangAccount) DecidedForOnePod() []*resourceapi.ResourceClaim {
	if a.unusable != nil {
		return nil
	}
	return a.account.DecidedForOnePod()
}

// Charge implements devices.Account.
func (a *gangAccount) Charge(node devices.Room, open []resourceapi.AllocationResult) (*v1.Pod, string) {
	status := a.unusable
	if status == nil {
		status = a.pl.checkBacking(open, a.given)
	}
	if status != nil {
		return nil, status.Message()
	}
	counted, status := a.account.Count(a.ctx, node.(fwk.NodeInfo), open[:a.given])
	if status != nil {
		return nil, status.Message()
	}
	return counted, ""
}
