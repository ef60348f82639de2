// Package catalog knows models: how much fits into them, how long their answers may
// be, what their tokens cost and what they can do.
//
//	known := catalog.Default()
//	info, ok := known.Lookup("anthropic", "claude-sonnet-4-5-20250929")
//	fmt.Println(info.Context, info.MaxOutput, ok)
//
// The data is a file inside of the package, models.json. It says for each provider
// when and where its figures were seen. Prices change without notice: a bill is the
// provider's, what comes from here is an estimate.
//
// # What a response costs
//
// Look up the model that answered, [aycoder.Response.Model], rather than the one
// that was asked: a name without a date, a "-latest" or a model that was retired may
// be answered, and billed, by another one. Where that is not a name of the provider,
// as on Bedrock, which says what the model's maker calls it, look up the one that was
// asked.
//
//	if info, ok := known.Lookup(provider, resp.Model); ok && info.Price != nil {
//		dollars += resp.Usage.Cost(*info.Price)
//	}
//
// Count the requests of a run one by one. A long request may cost more for each
// token ([aycoder.Price.Long]), which the sum of several short ones must not seem to
// be. A nil Price is an unknown price; one of zeros is free.
//
// [aycoder.Usage] counts each token of the input once: Input leaves out what was
// read from a cache or written to one. Where only one figure of a cache is known, or
// none, such tokens are priced as any other input: they are not free, but they have no separate
// price. Prices are those of a standard request. Batches, priority, data that stays in a
// region, caches that live longer than the default, searches and other tools of the provider
// cost more or less. A price that depends on the time of day is that of the dearest hour.
//
// # Names
//
// [Catalog.Lookup] finds a model by the names that its provider gives it: with a
// date, as a resource ("models/…", "publishers/…/models/…", an ARN), with the tag
// "latest" or a quantisation (Ollama). It does not guess: what is not a name of a
// model is unknown, however similar it is, and a "-mini" is never taken for its big
// brother. A Bedrock model of a region whose price is not known is returned without
// a price, and so are models on OpenRouter whose price depends on who hosts them.
// The names of Azure's deployments are their owner's, and all unknown.
//
// A provider's name is what [aycoder.ModelNamer] returns. The same model costs
// different amounts at different providers, so the provider is never left out.
//
// # Own data
//
// [Parse] reads a file of the same format, in place of the one of the package, and
// [Catalog.With] adds or replaces single models. Both make a new catalog; one that
// exists never changes, and is safe for concurrent use.
//
//	{"providers": [{
//		"provider": "acme", "date": "2026-11-21", "sources": ["https://acme.example/prices"],
//		"models": [{
//			"model": "acme-1", "names": ["acme-latest"],
//			"context": 200000, "max_output": 32000, "tools": true, "images": true,
//			"price": {"input": 1, "output": 4, "cache_read": 0.1,
//				"long_from": 100000, "long": {"input": 2, "output": 8, "cache_read": 0.2}}
//		}]
//	}]}
//
// A model has the fields of [aycoder.ModelInfo] and "names", which are further names
// of it. Only the names are required; what is left out is unknown.
//
// # Clients
//
// [Catalog.Middleware] makes a client an [aycoder.ModelInfoer]. It changes no
// request: the bytes that go out are the same with it and without it. In particular
// it sets no [aycoder.Request.MaxTokens]. The longest answer a model can give is a
// bad bound for most: some providers hold the whole of it against a rate limit or a
// balance, or refuse it where prompt and answer together do not fit. A bound the
// host sets is not cut either, since the data may be older than the model's limit.
package catalog
