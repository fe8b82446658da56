package allocator_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// commandAllocate looks for devices for the claims of a pod, and takes none.
func (w *world) commandAllocate(names, _ []string) (string, error) {
	return w.allocate(names, nil)
}

// commandWhatIfGone is allocate as if some claims held nothing.
func (w *world) commandWhatIfGone(arguments, _ []string) (string, error) {
	verb := slices.Index(arguments, "allocate")
	if verb < 1 {
		return "", errors.New("want CLAIM... allocate CLAIM...")
	}
	for _, name := range arguments[:verb] {
		if w.held[name] == nil {
			return "", fmt.Errorf("claim %s holds nothing", name)
		}
	}
	return w.allocate(arguments[verb+1:], arguments[:verb])
}

// allocate asks the solver, compares its answer with that of other allocators, and describes it.
func (w *world) allocate(names, gone []string) (string, error) {
	claims, err := w.find(names)
	if err != nil {
		return "", err
	}
	var usage ledger.View = w.usage
	if len(gone) > 0 {
		var uids []types.UID
		for _, name := range gone {
			uids = append(uids, w.claims[name].UID)
		}
		usage = ledger.Without(w.usage, sets.New(uids...).Has)
	}
	site := allocator.NodeView{Node: w.node, Pools: w.store().OnNode(w.node), Usage: usage}
	outcome, solveErr := w.solver().Prepare(claims).Solve(w.ctx, site)
	if err := w.crossCheck(claims, gone, outcome, solveErr); err != nil {
		return "", err
	}
	w.last = attempt{claims: claims, outcome: outcome}
	if solveErr != nil {
		return wrap("error: ", solveErr.Error()), nil
	}
	return describeOutcome(claims, outcome), nil
}

// find returns claims that can be allocated.
func (w *world) find(names []string) ([]*resourceapi.ResourceClaim, error) {
	switch {
	case w.node == nil:
		return nil, errors.New("there is no node yet")
	case len(names) == 0:
		return nil, errors.New("want at least one claim")
	}
	var claims []*resourceapi.ResourceClaim
	for _, name := range names {
		switch {
		case w.claims[name] == nil:
			return nil, fmt.Errorf("there is no claim %s", name)
		case w.held[name] != nil:
			return nil, fmt.Errorf("claim %s has devices already", name)
		}
		claims = append(claims, w.claims[name])
	}
	return claims, nil
}

// commandHold gives claims the devices that the last allocate found for them.
func (w *world) commandHold(names, _ []string) (string, error) {
	if w.last.outcome == nil || !w.last.outcome.Fits() {
		return "", errors.New("the last allocate found nothing")
	}
	for _, name := range names {
		i := slices.IndexFunc(w.last.claims, func(c *resourceapi.ResourceClaim) bool { return c.Name == name })
		if i < 0 || w.held[name] != nil {
			return "", fmt.Errorf("claim %s was not in the last allocate, or holds its devices already", name)
		}
		w.record(name, &w.last.outcome.Results[i])
	}
	return w.holders(), nil
}

// commandPlace allocates and holds one claim after the other.
func (w *world) commandPlace(names, _ []string) (string, error) {
	if len(names) == 0 {
		return "", errors.New("want at least one claim")
	}
	var outputs []string
	for _, name := range names {
		output, err := w.allocate([]string{name}, nil)
		if err != nil {
			return "", err
		}
		outputs = append(outputs, output)
		if w.last.outcome == nil || !w.last.outcome.Fits() {
			break
		}
		w.record(name, &w.last.outcome.Results[0])
	}
	return strings.Join(outputs, "\n"), nil
}

// commandFree deallocates claims.
func (w *world) commandFree(names, _ []string) (string, error) {
	for _, name := range names {
		if w.held[name] == nil {
			return "", fmt.Errorf("claim %s holds nothing", name)
		}
		w.record(name, nil)
	}
	return w.holders(), nil
}

// record changes the allocation of a claim, as a write to the API server would.
func (w *world) record(name string, allocation *resourceapi.AllocationResult) {
	w.version++
	claim := w.claims[name].DeepCopy()
	claim.ResourceVersion = strconv.Itoa(w.version)
	claim.Status.Allocation = allocation
	w.usage.Refresh(claim.Namespace+"/"+claim.Name, func() *resourceapi.ResourceClaim { return claim })
	if allocation == nil {
		delete(w.held, name)
	} else {
		w.held[name] = allocation
	}
}

// commandExplain says why the last allocate found nothing.
func (w *world) commandExplain(_, _ []string) (string, error) {
	if w.last.outcome == nil || w.last.outcome.Fits() {
		return "", errors.New("the last allocate did not fail, or with an error, which it has told")
	}
	return wrapLines(w.last.outcome.Explain().String()), nil
}
