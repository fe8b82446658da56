package devices_test

import "slices"

// trying is an exhaustive search for the largest number of pods of a gang that fit at the same time. It does not use
// the allocator.
type trying struct {
	*world
	classes []asked
	// at holds the node of each placed pod, class by class.
	at   [][]int
	most int
}

// mostByTrying returns the largest number of pods of the classes that fit.
func (w *world) mostByTrying(classes []asked) int {
	t := &trying{world: w, classes: classes, at: make([][]int, len(classes))}
	t.place(0, 0)
	return t.most
}

// place places the pods of a class from some node on, and then those of the classes after it. Pods of a class are alike.
func (t *trying) place(class, from int) {
	placed, left := 0, 0
	for i := range t.classes {
		placed += len(t.at[i])
		if i >= class {
			left += t.classes[i].pods - len(t.at[i])
		}
	}
	t.most = max(t.most, placed)
	if class == len(t.classes) || placed+left <= t.most {
		return
	}
	if len(t.at[class]) < t.classes[class].pods {
		for node := from; node < len(t.cpu); node++ {
			if t.cpu[node] < t.classes[class].cpu {
				continue
			}
			t.cpu[node] -= t.classes[class].cpu
			t.at[class] = append(t.at[class], node)
			if t.hasDevices() { // Where some pods have none, more have none.
				t.place(class, node)
			}
			t.at[class] = t.at[class][:len(t.at[class])-1]
			t.cpu[node] += t.classes[class].cpu
		}
	}
	t.place(class+1, 0)
}

// need is a request of a claim that is used on some nodes.
type need struct {
	want
	nodes []int
}

// hasDevices reports whether there are devices for all pods where they are.
func (t *trying) hasDevices() bool {
	var needs []need
	shared := make(map[string][]int)
	for class, nodes := range t.at {
		for _, node := range nodes {
			for _, claim := range t.classes[class].own {
				for _, w := range claim {
					needs = append(needs, need{w, []int{node}})
				}
			}
		}
		if name := t.classes[class].name; t.classes[class].shared != nil {
			shared[name] = append(shared[name], nodes...)
		}
	}
	for class := range t.at {
		if name := t.classes[class].name; t.classes[class].shared != nil && len(shared[name]) > 0 {
			for _, w := range t.classes[class].shared {
				needs = append(needs, need{w, shared[name]})
			}
			delete(shared, name)
		}
	}
	free := make([]int, len(t.kinds))
	for i, k := range t.kinds {
		free[i] = k.all - k.taken
	}
	return t.give(needs, free)
}

// give tries all ways to give each of the needs devices.
func (t *trying) give(needs []need, free []int) bool {
	if len(needs) == 0 {
		return true
	}
	for _, model := range needs[0].alternatives {
		if t.giveOne(needs, model, needs[0].count, 0, free) {
			return true
		}
	}
	return false
}

// giveOne tries all ways to give the first need a number of devices of a model, of the kinds from some index on, and
// devices to the needs after it.
func (t *trying) giveOne(needs []need, model string, count, from int, free []int) bool {
	if count == 0 {
		return t.give(needs[1:], free)
	}
	for i := from; i < len(free); i++ {
		k := &t.kinds[i]
		if free[i] == 0 || model != "any" && model != k.model ||
			slices.ContainsFunc(needs[0].nodes, func(node int) bool { return !t.reaches(node, k) }) {
			continue
		}
		free[i]--
		found := t.giveOne(needs, model, count-1, i, free)
		free[i]++
		if found {
			return true
		}
	}
	return false
}
