package quartermaster

import (
	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/config"
)

// olderServers returns the parts of the plugin that handling claims of older servers requires.
func (pl *Quartermaster) olderServers() classicdra.Scheduler {
	return classicdra.Scheduler{
		Claims:  pl.claims,
		Classes: pl.handle.SharedDRAManager().DeviceClasses(),
		Nodes:   pl.nodes,
		Waiting: pl.waiting,
		Waker:   pl.waker,
		Ask:     pl.writer.Ask,
	}
}

// support enables the handling of claims of older servers.
func (pl *Quartermaster) support(mode *classicdra.Mode) {
	pl.legacy = mode
	if mode.Resolves() {
		pl.solver.Resolve = mode.Resolve
		pl.solver.Evaluator = pl.state.Memory.NewEvaluator(config.CELFeatures(pl.features), api.NewLanguage())
	}
}
