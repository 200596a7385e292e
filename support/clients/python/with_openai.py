"""The scripted conversation through the `openai` package."""

import openai

from stack import BASE, ENDLESS, LONG, QUESTION, converse, full_house, kill_the_engine, nothing_runs, raises

client = openai.OpenAI(base_url=BASE, api_key="unused")
model = client.models.list().data[0].id

COUNTING = [{"role": "user", "content": "Count from one to five hundred, in words."}]


def ask(**options):
    options = {"messages": QUESTION, "max_tokens": 24, "temperature": 0, "model": model} | options
    return client.chat.completions.create(**options)


def text(**options):
    return ask(**options).choices[0].message.content


def models_are_listed():
    assert [it.id for it in client.models.list().data] == [model]
    assert client.models.retrieve(model).id == model


def an_answer_is_whole():
    answer = ask(max_tokens=8)
    assert answer.choices[0].message.content and answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 8, answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8, answer.usage
    assert answer._request_id and answer.id != ask(max_tokens=1).id


def a_stream_says_the_same():
    whole = ask()
    *chunks, last = ask(stream=True, stream_options={"include_usage": True})
    assert "".join(it.choices[0].delta.content or "" for it in chunks) == whole.choices[0].message.content
    assert [it.choices[0].finish_reason for it in chunks if it.choices[0].finish_reason] == ["length"]
    assert {it.id for it in chunks} == {last.id}
    assert not last.choices and last.usage.total_tokens == whole.usage.total_tokens, last


def a_stream_without_usage_has_a_choice_in_every_chunk():
    assert all(len(chunk.choices) == 1 for chunk in ask(stream=True))


def the_stream_helper_agrees():
    # It takes an answer that was cut by its cap for a failure, so this one is cut by a stop string.
    options = {"messages": QUESTION, "max_tokens": 24, "temperature": 0, "stop": [text()[7:12]]}
    with client.chat.completions.stream(model=model, **options) as stream:
        final = stream.get_final_completion().choices[0]
    assert (final.message.content, final.finish_reason) == (text(**options), "stop")


def a_conversation_goes_on():
    messages, prompts = [], []
    for question in ["Hello.", "What did I say?", "And before that?"]:
        messages.append({"role": "user", "content": question})
        answer = ask(messages=messages)
        # The whole message goes back, with all members that the package gives it.
        messages.append(answer.choices[0].message)
        prompts.append(answer.usage.prompt_tokens)
    assert prompts == sorted(set(prompts)), prompts


def a_stop_string_cuts():
    whole = text()
    stop = whole[7:12]
    answer = ask(stop=[stop]).choices[0]
    assert (answer.message.content, answer.finish_reason) == (whole[: whole.find(stop)], "stop")


def characters_stay_whole():
    emoji = [{"role": "user", "content": "Repeat: \U0001f469\u200d\U0001f467 \U0001f1ef\U0001f1f5 \u6f22\u5b57 \u0451"}]
    whole = text(messages=emoji, max_tokens=40)
    streamed = ask(messages=emoji, max_tokens=40, stream=True)
    assert "".join(it.choices[0].delta.content or "" for it in streamed) == whole
    assert "\ufffd" not in whole, whole


def logprobs_spell_the_text():
    choice = ask(logprobs=True, top_logprobs=3).choices[0]
    assert "".join(it.token for it in choice.logprobs.content) == choice.message.content
    for entry in choice.logprobs.content:
        assert entry.logprob <= 0 and bytes(entry.bytes).decode() == entry.token, entry
        assert len(entry.top_logprobs) == 3 and entry.top_logprobs[0].logprob >= entry.logprob, entry


def two_choices_are_two():
    answer = ask(n=2, temperature=1, seed=1)
    assert [it.index for it in answer.choices] == [0, 1]
    assert all(it.message.content and it.finish_reason for it in answer.choices)
    finished = [it.index for chunk in ask(n=2, stream=True) for it in chunk.choices if it.finish_reason]
    assert sorted(finished) == [0, 1]


def completions_are_served():
    options = {"model": model, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
    answer = client.completions.create(**options)
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 8, answer
    streamed = "".join(it.choices[0].text for it in client.completions.create(stream=True, **options))
    assert streamed == answer.choices[0].text != ""


def errors_have_all_their_members():
    for options, kind, status, code, param in [
        ({"model": "gpt-4"}, openai.NotFoundError, 404, "model_not_found", "model"),
        ({"messages": ENDLESS}, openai.BadRequestError, 400, "context_length_exceeded", "messages"),
        ({"messages": []}, openai.BadRequestError, 400, None, "messages"),
        ({"temperature": 5}, openai.BadRequestError, 400, None, "temperature"),
        ({"extra_body": {"stream": "false"}}, openai.BadRequestError, 400, None, "stream"),
        ({"messages": [{"role": "user", "content": "x" * 300_000}]}, openai.APIStatusError, 413, "request_too_large", None),
    ]:
        for stream in [False, True]:
            with raises(kind) as caught:
                ask(**{"stream": stream} | options)
            error = caught.error
            assert (error.status_code, error.param) == (status, param), (error, error.param)
            assert error.code == code or code is None, error.code
            assert error.type == "invalid_request_error" and error.request_id and error.body["message"], error


def unknown_paths_are_told():
    with raises(openai.NotFoundError) as caught:
        client.post("/nowhere", cast_to=object)
    assert (caught.error.code, caught.error.type) == ("not_found", "invalid_request_error"), caught.error
    with raises(openai.APIStatusError) as caught:
        client.delete("/chat/completions", cast_to=object)
    assert (caught.error.status_code, caught.error.code) == (405, "method_not_allowed"), caught.error


def a_refusal_is_told():
    with full_house(), raises(openai.InternalServerError) as caught:
        client.with_options(max_retries=0).chat.completions.create(model=model, messages=QUESTION)
    error = caught.error
    assert (error.status_code, error.type) == (503, "overloaded_error") and error.code, error.body
    assert 1 <= int(error.response.headers["retry-after"]) <= 59 and error.request_id


def a_refusal_is_retried():
    with full_house():
        raw = client.chat.completions.with_raw_response.create(model=model, messages=QUESTION, max_tokens=4)
    assert raw.retries_taken >= 1 and raw.parse().choices[0].message.content


def who_leaves_a_stream_frees_its_place():
    stream = ask(stream=True, max_tokens=LONG)
    for _, _ in zip(range(5), stream):
        pass
    stream.close()
    nothing_runs()


def who_runs_out_of_time_frees_its_place():
    with raises(openai.APITimeoutError):
        # Not a question that a model may answer with a word.
        client.with_options(timeout=0.3, max_retries=0).chat.completions.create(
            model=model, messages=COUNTING, max_tokens=LONG, temperature=0
        )
    nothing_runs()


def an_engine_that_dies_is_an_error():
    finished = []
    with raises(openai.APIError) as caught:
        for number, chunk in enumerate(ask(stream=True, max_tokens=LONG)):
            finished += [it for it in chunk.choices if it.finish_reason]
            if number == 3:
                kill_the_engine()
    assert not finished and caught.error.body["code"] == "engine_lost", caught.error.body


converse(
    models_are_listed,
    an_answer_is_whole,
    a_stream_says_the_same,
    a_stream_without_usage_has_a_choice_in_every_chunk,
    the_stream_helper_agrees,
    a_conversation_goes_on,
    a_stop_string_cuts,
    characters_stay_whole,
    logprobs_spell_the_text,
    two_choices_are_two,
    completions_are_served,
    errors_have_all_their_members,
    unknown_paths_are_told,
    a_refusal_is_told,
    a_refusal_is_retried,
    who_leaves_a_stream_frees_its_place,
    who_runs_out_of_time_frees_its_place,
    an_engine_that_dies_is_an_error,
)
