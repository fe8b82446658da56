package trace

import _ "embed"

// timesCSV has the tasks in the order of their arrival. The shape is a row of tasksCSV, from 0; one task has no times.
//
//go:embed openb-times.csv
var timesCSV string

// Run is a task of the trace with its times in seconds.
type Run struct {
	Task
	At, Lasts int64
	// BestEffort is the task's quality of service.
	BestEffort bool
}

// Runs returns the tasks in the order of their arrival.
func Runs() []Run {
	var shapes []Task
	for _, row := range rows(tasksCSV) {
		shapes = append(shapes, shapeOf(row))
	}
	var runs []Run
	at := int64(0)
	for _, row := range rows(timesCSV) {
		at += number(row[0])
		runs = append(runs, Run{Task: shapes[number(row[2])], At: at, Lasts: number(row[1]), BestEffort: number(row[3]) == 1})
	}
	return runs
}

func shapeOf(row []string) Task {
	return Task{GPUs: int(number(row[0])), MilliGPU: int(number(row[1])), MilliCPU: number(row[2]), MemoryMiB: number(row[3])}
}

// Nodes takes every scale-th node of the trace.
func Nodes(scale int) (nodes []Node) {
	i := 0
	for _, row := range rows(nodesCSV) {
		node := Node{Model: row[0], GPUs: int(number(row[1])), MilliCPU: number(row[2]), MemoryMiB: number(row[3])}
		for range number(row[4]) {
			if i%scale == 0 {
				nodes = append(nodes, node)
			}
			i++
		}
	}
	return nodes
}
