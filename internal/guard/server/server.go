package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/internal/guard/webhook"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// SecretName is the Secret of the certificate authority, in the namespace of the Lease.
const SecretName = "quartermaster-guard-ca"

// shutdownTimeout limits the time of running requests when the process shuts down.
const shutdownTimeout = 5 * time.Second

// Config configures a guard.
type Config struct {
	// Client, Leases and Lookups have separate connections: decisions must not delay renewals of the Lease, and
	// requests about invented claims must only delay other lookups.
	Client, Leases, Lookups kubernetes.Interface
	Identity                string
	Mode                    guard.Mode
	// Serving says where to listen. Without a certificate there, the guard creates its own.
	Serving *genericoptions.SecureServingOptions
	// ClientCAFile has the authorities of client certificates; "" if clients need no certificate.
	ClientCAFile string
	// RegisterURL is set if API servers reach this process at its listening address and not through a Service.
	RegisterURL   bool
	FailurePolicy admissionregistrationv1.FailurePolicyType
	Election      componentbaseconfig.LeaderElectionConfiguration
	// ServiceNames are the names by which API servers reach the guard through its Service.
	ServiceNames []string
	// RequestTimeout is the --request-timeout of the API servers.
	RequestTimeout time.Duration
	// Scheduler is the lease of the scheduler in this process, nil without one. Only the guard of the scheduler that leads
	// may decide.
	Scheduler lease.Leadership
	// Metrics serves the metrics of the process beside the webhook, without authentication.
	Metrics bool
}

// Run runs a guard until the context ends.
func Run(ctx context.Context, config *Config, holdings *Holdings) error {
	webhook.Register()
	if config.RegisterURL {
		if err := ensureNamespace(ctx, config.Client, config.Election.ResourceNamespace); err != nil {
			return err
		}
	}
	registrar := &registration.Registrar{
		Client: config.Client, FailurePolicy: config.FailurePolicy,
		Lease: config.Election.ResourceNamespace + "/" + config.Election.ResourceName,
	}
	hosts := config.ServiceNames
	if config.RegisterURL {
		address := config.Serving.BindAddress
		if address == nil || address.IsUnspecified() {
			return errors.New("to be registered by its address, the guard has to listen at a certain one; set --bind-address to where API servers reach it")
		}
		hosts = []string{address.String()}
		registrar.URL = "https://" + net.JoinHostPort(address.String(), strconv.Itoa(config.Serving.BindPort))
	}
	if config.Serving.ServerCert.CertKey.CertFile == "" {
		own, err := webhook.New(ctx, config.Client, config.Election.ResourceNamespace, SecretName, hosts...)
		if err != nil {
			return err
		}
		go own.Run(ctx)
		config.Serving.ServerCert.GeneratedCert, registrar.Authorities = own, own
	}
	return serve(ctx, config, holdings, registrar)
}

// serve answers requests, and takes part in the election.
func serve(ctx context.Context, config *Config, holdings *Holdings, registrar *registration.Registrar) error {
	deciding, err := newGuard(config, holdings)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() { end(deciding.History.Run(ctx)) }()
	holdings.Start(ctx)
	registrar.Leadership, registrar.Decider = deciding.Lease, deciding
	lookout := &registration.Lookout{Client: config.Leases, Lease: registrar.Lease, Lasts: config.Election.LeaseDuration.Duration}
	registrar.Lookout = lookout
	fencer := &guard.Fencer{Claims: config.Client.ResourceV1(), RequestTimeout: config.RequestTimeout}
	standing := &election.Election{
		Leases: config.Leases.CoordinationV1(), Identity: config.Identity, Mode: string(config.Mode), Config: config.Election,
		Lease: deciding.Lease,
		Guard: &candidate{deciding, config.Scheduler, holdings, registrar, lookout, fencer},
	}
	var info *apiserver.SecureServingInfo
	if err := config.Serving.ApplyTo(&info); err != nil {
		return fmt.Errorf("listen for requests of API servers: %w", err)
	}
	connections := webhook.NewConnections(info.Listener, webhook.MaxConnections)
	info.Listener = connections
	answering := webhook.NewHandler(deciding, connections)
	answering.Served = api.Of(config.Client)
	asked, err := onlyClients(config.ClientCAFile, info, answering)
	if err != nil {
		return err
	}
	stopped, _, err := info.Serve(handler(deciding, webhook.OnlyAt(lookout.Asked, asked), config.Metrics), shutdownTimeout, ctx.Done())
	if err != nil {
		return fmt.Errorf("answer requests of API servers: %w", err)
	}
	klog.FromContext(ctx).Info("Listening", "address", info.Listener.Addr(), "url", registrar.URL)
	lookout.Look(ctx)
	go lookout.Run(ctx)
	err = standing.Run(ctx)
	<-stopped
	if cause := context.Cause(ctx); errors.Is(cause, informer.ErrWentBack) {
		return cause
	}
	return err
}

// newGuard returns a guard that receives all changes.
func newGuard(config *Config, holdings *Holdings) (*guard.Guard, error) {
	deciding := &guard.Guard{
		Book: guard.NewBook(holdings.Ledger), Lease: &lease.Lease{},
		Lookup:  guard.NewLookup(config.Lookups.ResourceV1()),
		History: informer.NewHistory(config.Client.ResourceV1().ResourceClaims(metav1.NamespaceAll)),
		Mode:    config.Mode, Stored: holdings,
	}
	deciding.Book.Scheduler = holdings.Scheduler
	if err := holdings.OnClaim(deciding.ClaimChanged); err != nil {
		return nil, err
	}
	return deciding, holdings.OnSlice(func(string) { deciding.SliceChanged() })
}

// onlyClients restricts a handler to clients with a certificate, if there is a file of authorities. The server then
// asks for certificates, and follows changes of the file.
func onlyClients(file string, info *apiserver.SecureServingInfo, handler http.Handler) (http.Handler, error) {
	if file == "" {
		return handler, nil
	}
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of API servers' certificates (--client-ca-file): %w", err)
	}
	info.ClientCA = authorities
	return webhook.OnlyClientsOf(authorities.VerifyOptions, handler), nil
}

// handler serves asked to API servers, and health checks and metrics to operators.
func handler(deciding *guard.Guard, asked http.Handler, metrics bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", asked)
	if metrics {
		mux.Handle("/metrics", legacyregistry.Handler())
	}
	alive := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	mux.HandleFunc("/healthz", alive)
	mux.HandleFunc("/livez", alive)
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if !deciding.Decides() {
			http.Error(w, "this guard does not decide: another one has the Lease, or it has just got it", http.StatusServiceUnavailable)
			return
		}
		alive(w, r)
	})
	return mux
}

// ensureNamespace creates the namespace of Lease and Secret. It ignores an existing namespace. It also ignores
// missing rights: the next request fails if the namespace is missing.
func ensureNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("make namespace %s for the guard's Lease and Secret: %w", name, err)
	}
	return nil
}
