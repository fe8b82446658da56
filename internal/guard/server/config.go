package server

import (
	"context"
	"net"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
)

// lookupShare is the ratio between the rate limit of all other requests and that of lookups, which any client of the
// guard can trigger.
const lookupShare = 5

// Config returns the configuration that the flags describe, with separate connections to the API server: other
// requests of this process do not delay the guard.
func (o *Options) Config(ctx context.Context, connection *rest.Config) (*Config, error) {
	connection = rest.CopyConfig(connection)
	connection.UserAgent = "quartermaster-guard"
	connection.QPS, connection.Burst = o.qps, int(o.qps)
	client, err := connect(ctx, connection)
	if err != nil {
		return nil, err
	}
	few := rest.AddUserAgent(rest.CopyConfig(connection), "lookup")
	few.QPS, few.Burst = o.qps/lookupShare, max(1, int(o.qps/lookupShare))
	lookups, err := connect(ctx, few)
	if err != nil {
		return nil, err
	}
	leases, err := kubernetes.NewForConfig(apart(rest.AddUserAgent(rest.CopyConfig(connection), "leader-election")))
	if err != nil {
		return nil, err
	}
	return &Config{
		Client: client, Leases: leases, Lookups: lookups, Identity: identity(), Mode: guard.Mode(o.mode), Serving: o.serving, ClientCAFile: o.clientCAFile,
		RegisterURL: o.register == registerURL, FailurePolicy: admissionregistrationv1.FailurePolicyType(o.failurePolicy),
		Election: o.election, ServiceNames: o.serviceNames(), RequestTimeout: o.requestTimeout,
	}, nil
}

// apart gives a client its own connection. Clients of one configuration share a transport and its connection, where a
// list of all claims or a lost packet delays the others. Only clients with the same Dial function share a transport.
func apart(connection *rest.Config) *rest.Config {
	dial := connection.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	connection.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	return connection
}

// connect returns a client set that works with the server's versions of resource.k8s.io.
func connect(ctx context.Context, connection *rest.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	return api.Connect(ctx, client), nil
}

// identity returns a name that is unique to this process.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "guard"
	}
	return host + "_" + string(uuid.NewUUID())
}
