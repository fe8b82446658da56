package servers

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdQuota is the size at which etcd refuses writes, in bytes. It is etcd's
// recommended maximum: thousands of ResourceSlices and their history fit.
const etcdQuota = 8 << 30

// newEtcdCommand returns the command that runs an etcd with one member. It listens on a Unix
// socket only: it has no authentication of its own, and the socket is in a folder that nobody
// else can enter.
func newEtcdCommand() *cobra.Command {
	var folder, socket string
	var verbosity int
	command := &cobra.Command{Use: "etcd", Args: cobra.NoArgs, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		return runEtcd(folder, socket, verbosity)
	}}
	command.Flags().StringVar(&folder, "data-dir", "", "folder of the data")
	command.Flags().StringVar(&socket, "socket", "", "path of the Unix socket to listen on")
	command.Flags().IntVar(&verbosity, "v", 0, "from 4 on, etcd logs at level info, too")
	return command
}

// runEtcd runs etcd until it fails or the process is told to end.
func runEtcd(folder, socket string, verbosity int) error {
	cfg := embed.NewConfig()
	cfg.Dir = folder
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	// etcd insists on a host and a port to advertise. Nobody uses them: a single
	// member has no peers, and clients get the endpoint.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls = nil
	cfg.QuotaBackendBytes = etcdQuota
	// Data survives a crash of the process, but not of the machine. That makes
	// thousands of writes by tests and playgrounds fast.
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(verbosity))
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, os.Interrupt)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd in %s: %w", folder, err)
	}
	defer server.Close()
	select {
	case err := <-server.Err():
		return err
	case <-asked:
		return nil
	}
}

// etcdLogger returns a logger that writes to standard error.
func etcdLogger(verbosity int) *zap.Logger {
	level := zapcore.WarnLevel
	if verbosity >= 4 {
		level = zapcore.InfoLevel
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.Lock(os.Stderr), level)).Named("etcd")
}

// newCompactCommand returns the command that removes the history up to the present from an etcd.
func newCompactCommand() *cobra.Command {
	var endpoint string
	command := &cobra.Command{Use: "compact", Args: cobra.NoArgs, SilenceUsage: true, RunE: func(command *cobra.Command, _ []string) error {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		defer client.Close()
		any, err := client.Get(command.Context(), "/", clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("read the present revision of etcd: %w", err)
		}
		revision := any.Header.Revision
		// Nothing was written since the last time if it is compacted already.
		if _, err := client.Compact(command.Context(), revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return fmt.Errorf("compact etcd at revision %d: %w", revision, err)
		}
		return nil
	}}
	command.Flags().StringVar(&endpoint, "endpoint", "", "URL of etcd")
	return command
}
