package config

import (
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// Objectives holds the objectives by which a profile chooses nodes and devices. It is safe for concurrent use.
type Objectives struct {
	strategy  Strategy
	byClass   map[string]Strategy
	closeness []resourceapi.FullyQualifiedName
	// names has the results of Name.
	names map[Strategy]string

	mutex sync.Mutex
	// made has the objective of each strategy for the latest demand: all pods share its caches.
	made map[Strategy]*allocator.Objective
}

// NewObjectives returns the objectives of a profile with these arguments.
func NewObjectives(args *QuartermasterArgs) *Objectives {
	o := &Objectives{
		strategy: args.Strategy, byClass: args.ClassStrategies, closeness: *args.Closeness,
		names: make(map[Strategy]string), made: make(map[Strategy]*allocator.Objective),
	}
	for strategy := range strategies {
		name := []string{string(strategy)}
		for _, attribute := range o.closeness {
			name = append(name, string(attribute))
		}
		o.names[strategy] = strings.Join(name, "\x00")
	}
	return o
}

// StrategyFor returns the strategy for claims: that of the first request whose class has its own strategy, or else
// that of the profile.
func (o *Objectives) StrategyFor(claims []*resourceapi.ResourceClaim) Strategy {
	if len(o.byClass) == 0 {
		return o.strategy
	}
	for _, claim := range claims {
		for request := range dra.Requests(claim) {
			if strategy, has := o.byClass[request.Class]; has && request.Rank == 0 {
				return strategy
			}
		}
	}
	return o.strategy
}

// Of returns the objective of a strategy.
func (o *Objectives) Of(strategy Strategy, demand *placement.Demand) *allocator.Objective {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	objective := o.made[strategy]
	if objective == nil || objective.Demand != demand {
		objective = &allocator.Objective{Strategy: strategies[strategy], Demand: demand, Closeness: o.closeness}
		o.made[strategy] = objective
	}
	return objective
}

// Name identifies, for each strategy, the measure of scores.
func (o *Objectives) Name(strategy Strategy) string { return o.names[strategy] }
