package trace

import "math/rand"

// Mix changes the requests of the trace's tasks, as the paper's evaluation does.
type Mix struct {
	Name string
	// Part is the share of the requested GPU capacity (of the tasks, for tasks without GPUs) that tasks of a sort
	// should have; 0: as in the trace.
	Part float64
	Sort func(t *Task) bool
}

func several(t *Task) bool { return t.GPUs > 1 }
func shares(t *Task) bool  { return t.GPUs == 1 && t.MilliGPU < WholeGPU }
func noGPU(t *Task) bool   { return t.GPUs == 0 }

// Mixes are the trace as it is, and others.
var Mixes = []Mix{
	{Name: "openb"},
	{Name: "20 % of capacity asked for by tasks with several GPUs", Part: 0.2, Sort: several},
	{Name: "50 % of capacity asked for by tasks with several GPUs", Part: 0.5, Sort: several},
	{Name: "60 % of capacity asked for by shares", Part: 0.6, Sort: shares},
	{Name: "100 % of capacity asked for by shares", Part: 1, Sort: shares},
	{Name: "5 % of tasks without GPU", Part: 0.05, Sort: noGPU},
	{Name: "25 % of tasks without GPU", Part: 0.25, Sort: noGPU},
}

// weight returns the weight of a task in the part that a mix sets.
func (m *Mix) weight(t *Task) float64 {
	if m.Sort(&Task{}) { // of tasks
		return 1
	}
	return float64(t.Asked())
}

// Draw returns nodes of the trace and tasks of the mix in order of arrival, until 130 % of the GPUs are asked for.
func (m *Mix) Draw(scale int, seed int64) (nodes []Node, tasks []Task) {
	nodes, pool := Draw(scale, seed)
	if m.Part == 0 {
		return nodes, pool
	}
	in, all := 0.0, 0.0
	for i := range pool {
		w := m.weight(&pool[i])
		all += w
		if m.Sort(&pool[i]) {
			in += w
		}
	}
	return nodes, m.redraw(pool, in/all, 13*Capacity(nodes)/10, rand.New(rand.NewSource(seed)))
}

// redraw draws tasks so that the sort has its part instead of its part in the trace.
func (m *Mix) redraw(pool []Task, had float64, until int, rng *rand.Rand) (tasks []Task) {
	more, less := m.Part/had, (1-m.Part)/(1-had)
	most := max(more, less, 1)
	for asked := 0; asked < until; {
		t := pool[rng.Intn(len(pool))]
		chance := less
		if m.Sort(&t) {
			chance = more
		} else if m.weight(&t) == 0 {
			chance = 1
		}
		if rng.Float64()*most < chance {
			tasks = append(tasks, t)
			asked += t.Asked()
		}
	}
	return tasks
}
