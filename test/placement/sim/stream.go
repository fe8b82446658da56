package main

import (
	"cmp"
	"math/rand"
	"slices"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// window is the time in which nearly all tasks of the trace arrived: its last 36 days, in seconds.
const window = 36 * 24 * 60 * 60

// job is one or more tasks that start together: more than one is a gang.
type job struct {
	task
	shape int // equal for equal tasks
	pods  int
	// at is the time of arrival, lasts the duration.
	at, lasts int64
	// low is set for best effort, which waits behind all others.
	low bool
	// luck is the error of the estimate of its run time, from -1 to 1.
	luck float64
}

// asked returns the thousandths of GPUs that the job asks for.
func (j *job) asked() int { return j.pods * j.Asked() }

// A gang has tasks of one shape that arrived within togetherFor seconds, at most mostTogether.
const (
	togetherFor  = 10 * 60
	mostTogether = 64
)

// jobsOf returns the tasks of the trace, as single jobs or as gangs. All pods of a gang run for their mean time. With gangs, all
// jobs have the same priority.
func jobsOf(runs []trace.Run, gangs bool) (jobs []job) {
	shapes, open := map[trace.Task]int{}, map[trace.Task]int{}
	for _, run := range runs {
		shape, known := shapes[run.Task]
		if !known {
			shape = len(shapes)
			shapes[run.Task] = shape
		}
		if of, has := open[run.Task]; gangs && has && run.GPUs > 0 && run.At-jobs[of].at <= togetherFor && jobs[of].pods < mostTogether {
			jobs[of].pods++
			jobs[of].lasts += run.Lasts
			continue
		}
		open[run.Task] = len(jobs)
		jobs = append(jobs, job{task: task{Task: run.Task}, shape: shape, pods: 1, at: run.At, lasts: run.Lasts, low: run.BestEffort && !gangs})
	}
	for i := range jobs {
		jobs[i].lasts = max(1, jobs[i].lasts/int64(jobs[i].pods))
	}
	return jobs
}

// stream overlays copies of the trace, each shifted by a random time, until the jobs of a window ask for a part of all GPUs over
// the whole time. The window repeats, so no job runs for longer. Jobs that do not fit into the empty cluster are left out.
func stream(nodes []node, load float64, gangs bool, seed int64) (jobs []job) {
	capacity := 0
	for i := range nodes {
		capacity += nodes[i].left()
	}
	rng := rand.New(rand.NewSource(seed))
	published := jobsOf(trace.Runs(), gangs)
	published = slices.DeleteFunc(published, func(j job) bool { return roomFor(nodes, &j) < j.pods })
	for want := load * float64(capacity) * window; want > 0; {
		shift, first := rng.Int63n(window), rng.Intn(len(published))
		for i := range published {
			j := published[(first+i)%len(published)]
			j.at, j.lasts = (j.at+shift)%window, min(j.lasts, window)
			j.luck = 2*rng.Float64() - 1
			jobs = append(jobs, j)
			if want -= float64(j.asked()) * float64(j.lasts); want <= 0 {
				break
			}
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(a.at, b.at) })
	return jobs
}

func roomFor(nodes []node, j *job) (pods int) {
	for i := range nodes {
		pods += nodes[i].room(&j.task)
	}
	return pods
}

// room returns the number of tasks of a shape that fit.
func (n *node) room(t *task) int {
	room := 1 << 20
	if t.MilliCPU > 0 {
		room = int(max(0, n.milliCPU) / t.MilliCPU)
	}
	if t.MemoryMiB > 0 {
		room = min(room, int(max(0, n.memory)/t.MemoryMiB))
	}
	if t.GPUs > 0 && room > 0 {
		fit := 0
		for _, free := range n.gpus[:n.n] {
			fit += max(0, int(free)) / t.MilliGPU
		}
		room = min(room, fit/t.GPUs)
	}
	return room
}
