package controlplane

import (
	"errors"
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
)

// etcdClientLogger is what the API server's etcd clients log to. They warn of
// every write that a client of the API server gives up, for instance because
// it was killed. The logger is made when the program starts, writes to
// standard error, and there is no option or setter for it; hence the access
// by name. If a later Kubernetes renames it, redirectEtcdClients fails.
//
//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger

// redirectEtcdClients makes the etcd clients write to the log. They have to be
// made afterwards, and keep that logger for life. The returned function puts
// the earlier logger back for clients of others.
func redirectEtcdClients(log *componentLog) (restore func() error, err error) {
	earlier := etcdClientLogger
	if earlier == nil {
		return nil, errors.New("redirect the log of the API server's etcd clients: this version of k8s.io/apiserver has no such logger; adapt etcdClientLogger in test/controlplane")
	}
	etcdClientLogger = log.etcdLogger().Named("client")
	return func() error {
		etcdClientLogger = earlier
		return nil
	}, nil
}
