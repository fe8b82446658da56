// Package trace contains openb, the nodes and tasks of a production cluster, and the order in which
// the tasks arrive. It is the default workload of Alibaba's cluster-trace-gpu-v2023, published with
// Weng et al., "Beware of Fragmentation", USENIX ATC '23, as shapes with counts.
package trace

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math/rand"
	"strconv"
	"strings"
)

var (
	//go:embed openb-nodes.csv
	nodesCSV string
	//go:embed openb-tasks.csv
	tasksCSV string
)

// Node is a node, or the free part of a node.
type Node struct {
	Model     string // of its GPUs
	GPUs      int
	MilliCPU  int64
	MemoryMiB int64
}

// Task is a pod that asks for CPU and memory, and for no GPU, for MilliGPU thousandths of one GPU, or
// for whole GPUs (MilliGPU is 1000).
type Task struct {
	GPUs      int
	MilliGPU  int
	MilliCPU  int64
	MemoryMiB int64
}

// Asked returns the thousandths of GPUs that the task asks for.
func (t Task) Asked() int { return t.GPUs * t.MilliGPU }

// WholeGPU is the capacity of a GPU in thousandths.
const WholeGPU = 1000

// Draw takes every scale-th node, and tasks for them in the order of their arrival until they ask for
// 130 % of the GPUs: first each task of the trace once, then random tasks from it.
func Draw(scale int, seed int64) (nodes []Node, tasks []Task) {
	nodes = Nodes(scale)
	var pool []Task
	for _, row := range rows(tasksCSV) {
		for range number(row[4]) {
			pool = append(pool, shapeOf(row))
		}
	}
	capacity := Capacity(nodes)
	rng := rand.New(rand.NewSource(seed))
	rng.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	for asked := 0; asked*10 < capacity*13; asked += tasks[len(tasks)-1].Asked() {
		if len(tasks) < len(pool) {
			tasks = append(tasks, pool[len(tasks)])
		} else {
			tasks = append(tasks, pool[rng.Intn(len(pool))])
		}
	}
	rng.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	return nodes, tasks
}

// Capacity returns the thousandths of GPUs that the nodes have.
func Capacity(nodes []Node) int {
	capacity := 0
	for _, node := range nodes {
		capacity += node.GPUs * WholeGPU
	}
	return capacity
}

// rows returns the rows of a file without its header. The files are part of the program.
func rows(text string) [][]string {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		panic(fmt.Sprintf("the trace cannot be read: %v", err))
	}
	return rows[1:]
}

func number(cell string) int64 {
	n, err := strconv.ParseInt(cell, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("the trace cannot be read: %v", err))
	}
	return n
}
