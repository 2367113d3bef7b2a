// The types of the package, as a program's compiler sees them: nothing of this runs.
import { z } from 'zod';
import { load, plan, type Event, StrataError } from 'strata-llm';

const Hero = z.object({ animal: z.enum(['fox', 'owl']), age: z.number() });

export async function typed(): Promise<void> {
  await using model = await load('tale', { memory: '6G', projector: 'eyes.gguf', signal: AbortSignal.timeout(9) });
  const hero = await model.chat('Who is the hero?', { schema: Hero, temperature: 0 }).parsed();
  const animal: 'fox' | 'owl' = hero.animal;
  const age: number = hero.age;
  // @ts-expect-error a hero has no name
  void hero.name;
  const plain: unknown = await model.chat('Who?', { schema: { type: 'object' } }).parsed();
  // @ts-expect-error what a JSON schema gives is not known
  void plain.name;
  for await (const event of model.chat([{ role: 'user', content: 'Hello' }])) {
    const { text, calls }: Event = event;
    void [text.length, calls.map((call) => call.name)];
  }
  const weather = { name: 'weather', parameters: Hero, run: async () => '18 °C' };
  const answer: string = await model.chat('Is it warm?', { tools: [weather], adapters: { 0: 0.8 } }).text();
  const one: Float32Array = await model.embed('a fox');
  const many: Float32Array[] = await model.embed(['a fox', 'an owl']);
  const fits: boolean = (await plan('tale', { context: 512 })).fits;
  // @ts-expect-error there is no such option
  void load('tale', { contxt: 1 });
  // @ts-expect-error keys and values have other types
  void load('tale', { kv: 'f8' });
  void [animal, age, answer, one, many, fits, new StrataError().code];
}
