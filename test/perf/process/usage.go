package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the resolution of CPU times in /proc. Linux has the same value on all
// architectures.
const ticksPerSecond = 100

// cpuTime returns the CPU time of a process so far, in user and in kernel mode (fields 14 and
// 15 of /proc/PID/stat, see proc_pid_stat(5)).
func cpuTime(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return parseCPUTime(content)
}

func parseCPUTime(stat []byte) (time.Duration, error) {
	// The second field is a name in parentheses, which may contain anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0, fmt.Errorf("CPU time of a process: %q has not the fields of /proc/PID/stat", stat)
	}
	total := int64(0)
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time of a process: %w", err)
		}
		total += ticks
	}
	return time.Duration(total) * (time.Second / ticksPerSecond), nil
}

// machineTime is the time of all cores together. busy is the part that was used, also by
// other machines on the same host; all includes idle time.
type machineTime struct{ busy, all time.Duration }

func readMachineTime() (machineTime, error) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machineTime{}, fmt.Errorf("CPU time of the machine: %w", err)
	}
	return parseMachineTime(content)
}

// parseMachineTime reads the first line of /proc/stat, see proc_stat(5).
func parseMachineTime(stat []byte) (machineTime, error) {
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	// The fields after "steal" are included in earlier ones.
	const idle, iowait, steal = 4, 5, 8
	if len(fields) <= steal || fields[0] != "cpu" {
		return machineTime{}, fmt.Errorf("CPU time of the machine: %q is not the first line of /proc/stat", line)
	}
	var result machineTime
	for i, field := range fields[1 : steal+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return machineTime{}, fmt.Errorf("CPU time of the machine: %w", err)
		}
		took := time.Duration(ticks) * (time.Second / ticksPerSecond)
		result.all += took
		if i+1 != idle && i+1 != iowait {
			result.busy += took
		}
	}
	return result, nil
}

// residentMemory returns the resident memory of a process, in bytes.
func residentMemory(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	match := regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`).FindSubmatch(content)
	if match == nil {
		return 0, fmt.Errorf("memory of process %d: its status in /proc has no line VmRSS", pid)
	}
	kibibytes, err := strconv.ParseUint(string(match[1]), 10, 64)
	return kibibytes << 10, err
}

// liveHeap makes a scheduler collect its garbage and returns the size of the remaining heap,
// in bytes. It writes the heap profile to file.
func liveHeap(ctx context.Context, address, file string) (uint64, error) {
	profile, err := get(ctx, address, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(file, profile, 0o644); err != nil {
		return 0, err
	}
	return parseHeap(profile)
}

// contention writes the profile of the waits of goroutines for locks and for each other since the start. Schedulers
// record each wait by default (enableContentionProfiling), but not the holder of the lock.
func contention(ctx context.Context, address string, file func(string) string) error {
	profile, err := get(ctx, address, "/debug/pprof/block")
	if err != nil {
		return err
	}
	return os.WriteFile(file("-block.pprof"), profile, 0o644)
}

// parseHeap finds the size of live objects in a heap profile as text.
func parseHeap(profile []byte) (uint64, error) {
	match := regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`).FindSubmatch(profile)
	if match == nil {
		return 0, fmt.Errorf("heap of the scheduler: the profile has no line \"# HeapAlloc = \"")
	}
	return strconv.ParseUint(string(match[1]), 10, 64)
}
