package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
)

// partEnv holds a partSpec in the environment of a part's process.
const partEnv = "QUARTERMASTER_CONTROLPLANE_PART"

// compactCommand is the command to compact etcd. A part reads it from its standard input.
const compactCommand = "compact"

// replyDescriptor is the file descriptor to which a part writes its answers.
const replyDescriptor = 3

// partSpec describes the part that a process is.
type partSpec struct {
	Part         string
	Dir, LogFile string
	Options      Options
	// Socket is the path of etcd's socket.
	Socket string
	// Port is the API server's port on 127.0.0.1.
	Port int
}

// partReply is a line from a part: one when it has started, then one for each
// command.
type partReply struct {
	Revision int64
	Error    string
}

var runPartWasCalled atomic.Bool

// RunPart runs a server of a control plane if the process was started for one (see
// Options.Restartable), and exits with it. Otherwise it returns at once.
// Programs that use that option call it before everything else.
func RunPart() {
	runPartWasCalled.Store(true)
	encoded, isPart := os.LookupEnv(partEnv)
	if !isPart {
		return
	}
	replies := json.NewEncoder(os.NewFile(replyDescriptor, "replies"))
	if err := runPart([]byte(encoded), replies); err != nil {
		// Standard error is the log; the parent process reads the reply.
		fmt.Fprintln(os.Stderr, err)
		_ = replies.Encode(partReply{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// runPart runs a part until it fails, is told to end, or its parent is gone.
func runPart(encoded []byte, replies *json.Encoder) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var spec partSpec
	if err := json.Unmarshal(encoded, &spec); err != nil {
		return fmt.Errorf("read %s: %w", partEnv, err)
	}
	log, err := openComponentLog(spec.LogFile, spec.Options.LogVerbosity)
	if err != nil {
		return err
	}
	defer log.close()
	part, compact, err := spec.start(ctx, log)
	if err != nil {
		return err
	}
	if err := replies.Encode(partReply{}); err != nil {
		return errors.Join(err, part.stop())
	}
	ctx, parentGone := context.WithCancel(ctx)
	go func() {
		defer parentGone()
		for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
			_ = replies.Encode(execute(ctx, commands.Text(), compact))
		}
	}()
	select {
	case <-part.done:
		_, err := part.ended()
		return err
	case <-ctx.Done():
		return part.stop()
	}
}

// execute answers a command.
func execute(ctx context.Context, command string, compact func(context.Context) (int64, error)) partReply {
	if command != compactCommand || compact == nil {
		return partReply{Error: fmt.Sprintf("command %q is not one of this part", command)}
	}
	revision, err := compact(ctx)
	if err != nil {
		return partReply{Error: err.Error()}
	}
	return partReply{Revision: revision}
}

// start starts the server that the spec describes in this process. compact is nil
// if the server has nothing to compact.
func (s partSpec) start(ctx context.Context, log *componentLog) (part *component, compact func(context.Context) (int64, error), err error) {
	folder := dataFolder{root: s.Dir}
	if s.Part == "etcd" {
		etcd, err := startEtcd(ctx, folder, s.Socket, log)
		if err != nil {
			return nil, nil, err
		}
		return etcd.component, etcd.compact, nil
	}
	if _, err := overrideFeatureGates(s.Options.FeatureGates); err != nil {
		return nil, nil, err
	}
	credentials, err := ensureCredentials(folder)
	if err != nil {
		return nil, nil, err
	}
	if _, err := redirectEtcdClients(log); err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
	if err != nil {
		return nil, nil, fmt.Errorf("listen where clients expect the API server: %w", err)
	}
	part, err = startAPIServer(listener, credentials, etcdEndpoint(s.Socket), s.Options)
	return part, nil, err
}
